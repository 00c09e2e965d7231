package forgetfs

import (
	"context"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Mount shows a disk at a directory, until unmount is called. It needs root and /dev/fuse.
func Mount(dir string, d *Disk) (unmount func() error, err error) {
	always := time.Hour // nobody but the kernel changes the disk
	_, err = fs.Mount(dir, &inode{disk: d, node: d.root}, &fs.Options{
		MountOptions: fuse.MountOptions{
			DirectMountStrict: true, AllowOther: true, FsName: "forgetfs", Name: "forgetfs",
			ExplicitDataCacheControl: true, DisableXAttrs: true, MaxWrite: 128 << 10,
		},
		EntryTimeout: &always, AttrTimeout: &always,
	})
	if err != nil {
		return nil, err
	}
	// Detached, because a mount namespace that was made since then has the mount too.
	return func() error { return syscall.Unmount(dir, syscall.MNT_DETACH) }, nil
}

// inode is a node as FUSE calls it.
type inode struct {
	fs.Inode
	disk *Disk
	node *node
}

var (
	_ fs.NodeStatfser       = (*inode)(nil)
	_ fs.NodeGetattrer      = (*inode)(nil)
	_ fs.NodeSetattrer      = (*inode)(nil)
	_ fs.NodeLookuper       = (*inode)(nil)
	_ fs.NodeReaddirer      = (*inode)(nil)
	_ fs.NodeOpener         = (*inode)(nil)
	_ fs.NodeReader         = (*inode)(nil)
	_ fs.NodeWriter         = (*inode)(nil)
	_ fs.NodeFsyncer        = (*inode)(nil)
	_ fs.NodeAllocater      = (*inode)(nil)
	_ fs.NodeCreater        = (*inode)(nil)
	_ fs.NodeMkdirer        = (*inode)(nil)
	_ fs.NodeUnlinker       = (*inode)(nil)
	_ fs.NodeRmdirer        = (*inode)(nil)
	_ fs.NodeRenamer        = (*inode)(nil)
	_ fs.NodeOpendirer      = (*inode)(nil)
	_ fs.InodeEmbedder      = (*inode)(nil)
	_ fs.NodeCopyFileRanger = (*inode)(nil)
)

// child returns the inode of a node, which is in this directory.
func (i *inode) child(ctx context.Context, n *node, out *fuse.EntryOut) *fs.Inode {
	n.attr(&out.Attr)
	return i.NewInode(ctx, &inode{disk: i.disk, node: n}, fs.StableAttr{Mode: n.mode & syscall.S_IFMT, Ino: n.ino})
}

func (n *node) attr(out *fuse.Attr) {
	out.Ino, out.Mode, out.Size, out.Nlink, out.Blksize = n.ino, n.mode, uint64(len(n.live)), 1, pageSize
	out.Blocks = (out.Size + 511) / 512
	out.SetTimes(&n.when, &n.when, &n.when)
}

// Statfs says that there is room.
func (i *inode) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	const pages = 16 << 30 / pageSize
	out.Bsize, out.Frsize, out.Blocks, out.Bfree, out.Bavail, out.NameLen = pageSize, pageSize, pages, pages, pages, 255
	return 0
}

func (i *inode) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return i.disk.do(false, func() syscall.Errno {
		i.node.attr(&out.Attr)
		return 0
	})
}

func (i *inode) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	size, resize := in.GetSize()
	return i.disk.do(resize, func() syscall.Errno {
		if mode, ok := in.GetMode(); ok {
			i.node.mode = i.node.mode&syscall.S_IFMT | mode&0o7777
		}
		if resize {
			i.node.resize(int(size))
		}
		i.node.attr(&out.Attr)
		return 0
	})
}

func (i *inode) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (child *fs.Inode, errno syscall.Errno) {
	errno = i.disk.do(false, func() syscall.Errno {
		n := i.node.entries[name]
		if n == nil {
			return syscall.ENOENT
		}
		child = i.child(ctx, n, out)
		return 0
	})
	return child, errno
}

func (i *inode) Opendir(context.Context) syscall.Errno { return 0 }

func (i *inode) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	var all []fuse.DirEntry
	errno := i.disk.do(false, func() syscall.Errno {
		for _, name := range slices.Sorted(maps.Keys(i.node.entries)) {
			n := i.node.entries[name]
			all = append(all, fuse.DirEntry{Name: name, Ino: n.ino, Mode: n.mode & syscall.S_IFMT})
		}
		return 0
	})
	return fs.NewListDirStream(all), errno
}

func (i *inode) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_KEEP_CACHE, 0
}

func (i *inode) Read(_ context.Context, _ fs.FileHandle, to []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n := 0
	errno := i.disk.do(false, func() syscall.Errno {
		if off < int64(len(i.node.live)) {
			n = copy(to, i.node.live[off:])
		}
		return 0
	})
	return fuse.ReadResultData(to[:n]), errno
}

func (i *inode) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	errno := i.disk.do(true, func() syscall.Errno {
		i.node.write(data, off)
		return 0
	})
	return uint32(len(data)), errno
}

// Fsync syncs a file or a directory.
func (i *inode) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	time.Sleep(i.disk.SyncTakes)
	return i.disk.do(true, func() syscall.Errno {
		i.node.sync()
		return 0
	})
}

// Allocate makes a file longer. It keeps no room, because there always is some.
func (i *inode) Allocate(_ context.Context, _ fs.FileHandle, off, size uint64, mode uint32) syscall.Errno {
	const keepSize = 1
	if mode&^keepSize != 0 {
		return syscall.EOPNOTSUPP
	}
	return i.disk.do(true, func() syscall.Errno {
		if end := int(off + size); mode&keepSize == 0 && end > len(i.node.live) {
			i.node.resize(end)
		}
		return 0
	})
}

// CopyFileRange makes the kernel copy by reading and writing.
func (i *inode) CopyFileRange(context.Context, fs.FileHandle, uint64, *fs.Inode, fs.FileHandle, uint64, uint64, uint64) (uint32, syscall.Errno) {
	return 0, syscall.ENOSYS
}

func (i *inode) Create(ctx context.Context, name string, _, mode uint32, out *fuse.EntryOut) (child *fs.Inode, _ fs.FileHandle, _ uint32, errno syscall.Errno) {
	child, errno = i.add(ctx, name, syscall.S_IFREG|mode&0o7777, out)
	return child, nil, fuse.FOPEN_KEEP_CACHE, errno
}

func (i *inode) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return i.add(ctx, name, syscall.S_IFDIR|mode&0o7777, out)
}

func (i *inode) add(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (child *fs.Inode, errno syscall.Errno) {
	errno = i.disk.do(true, func() syscall.Errno {
		if i.node.entries[name] != nil {
			return syscall.EEXIST
		}
		n := i.disk.newNode(mode)
		i.node.set(name, n)
		child = i.child(ctx, n, out)
		return 0
	})
	return child, errno
}

func (i *inode) Unlink(_ context.Context, name string) syscall.Errno { return i.remove(name, false) }
func (i *inode) Rmdir(_ context.Context, name string) syscall.Errno  { return i.remove(name, true) }

func (i *inode) remove(name string, dir bool) syscall.Errno {
	return i.disk.do(true, func() syscall.Errno {
		n := i.node.entries[name]
		switch {
		case n == nil:
			return syscall.ENOENT
		case n.isDir() != dir && dir:
			return syscall.ENOTDIR
		case n.isDir() != dir:
			return syscall.EISDIR
		case len(n.entries) > 0:
			return syscall.ENOTEMPTY
		}
		i.node.set(name, nil)
		return 0
	})
}

func (i *inode) Rename(_ context.Context, name string, parent fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	to, ok := parent.(*inode)
	if !ok || flags != 0 {
		return syscall.EINVAL
	}
	return i.disk.do(true, func() syscall.Errno {
		n := i.node.entries[name]
		if n == nil {
			return syscall.ENOENT
		}
		if old := to.node.entries[newName]; old != nil && len(old.entries) > 0 {
			return syscall.ENOTEMPTY
		}
		i.node.rename(name, to.node, newName)
		return 0
	})
}
