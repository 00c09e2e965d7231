// Package datadir is what is at the top of a node's data directory: the lock that keeps a second
// process out, the file that says whose data they are, and the mark of a restore that is not whole.
package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/quorate/quorate/internal/quota"
)

// Format is the version of the layout of a data directory.
const Format = 1

const (
	identityFile = "node.json"
	lockFile     = "LOCK"
	// restoring is the file that is in a data directory while a backup is restored into it.
	restoring = "RESTORING"
)

// Identity is what a data directory belongs to, in node.json.
type Identity struct {
	Format      int          `json:"format"`
	Cluster     string       `json:"cluster"`
	Node        quota.NodeID `json:"node"`
	Ranges      int          `json:"ranges"`
	Incarnation uint64       `json:"incarnation"`
	// First is the first incarnation with these data.
	First uint64 `json:"first"`

	// Joined has the members of when this node joined, by peer address; none for
	// one that made its cluster. A node that ends before it has a copy of the
	// membership looks for the cluster there, and never makes one of its own.
	Joined map[quota.NodeID]string `json:"joined,omitempty"`
}

// Read returns the identity of a data directory; false if it has none yet.
func Read(dir string) (id Identity, there bool, err error) {
	path := filepath.Join(dir, identityFile)
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return id, false, nil
	case err != nil:
		return id, false, fmt.Errorf("data directory: %w", err)
	}
	if err := json.Unmarshal(data, &id); err != nil {
		return id, false, fmt.Errorf("%s: %w", path, err)
	}
	return id, true, nil
}

// Write replaces the identity of a data directory.
func (id Identity) Write(dir string) error {
	data, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(dir, identityFile), append(data, '\n'))
}

// Check says what of an identity is not as wanted.
func (id Identity) Check(want Identity, dir string) error {
	switch {
	case id.Format != want.Format:
		return fmt.Errorf("data directory %s: has format %d; this version reads %d", dir, id.Format, want.Format)
	case id.Cluster != want.Cluster:
		return fmt.Errorf("data directory %s: belongs to cluster %q, not %q", dir, id.Cluster, want.Cluster)
	case id.Node != want.Node:
		return fmt.Errorf("data directory %s: belongs to node %q, not %q", dir, id.Node, want.Node)
	case id.Ranges != want.Ranges:
		return fmt.Errorf("data directory %s: has %d ranges, not %d; the number is fixed when a cluster is made", dir, id.Ranges, want.Ranges)
	}
	return nil
}

// Lock keeps a second process out of a data directory.
type Lock struct{ f *os.File }

// Close lets others in.
func (l *Lock) Close() error { return l.f.Close() }

// Open makes a data directory if there is none, and locks it. One into which a backup was not
// restored whole is an error.
func Open(dir string) (*Lock, error) {
	l, err := lock(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(dir, restoring)); err == nil {
		return nil, errors.Join(cutShort(strings.TrimSuffix(dir, "/")), l.Close())
	}
	return l, nil
}

func cutShort(dir string) error {
	return fmt.Errorf("data directory %s: a restore into it was cut short; empty it, and restore again", dir)
}

func lock(dir string) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s: is in use by another process", dir), f.Close())
	}
	return &Lock{f}, nil
}

// CheckEmpty says what is in the way of a restore.
func CheckEmpty(dir string) error {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	for _, e := range list {
		switch e.Name() {
		case "lost+found": // of the file system
		case restoring:
			return cutShort(dir)
		default:
			return fmt.Errorf("data directory %s: there is %q in it; a backup is restored into an empty directory: name another one", dir, e.Name())
		}
	}
	return nil
}

// BeginRestore makes, locks and marks a directory: no node starts with it before EndRestore.
func BeginRestore(dir string) (*Lock, error) {
	l, err := lock(dir)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, restoring), nil, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory: %w", err), l.Close())
	}
	return l, nil
}

// EndRestore makes a directory one that a node starts with; subdirs are those that the restore made.
func EndRestore(dir string, id Identity, subdirs ...string) error {
	if err := id.Write(dir); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	for _, d := range append([]string{"."}, subdirs...) { // before the mark goes
		if err := syncDir(filepath.Join(dir, d)); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(dir, restoring)); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return syncDir(dir)
}

// Discard takes away what a restore has made, the mark last.
func Discard(dir string, subdirs ...string) error {
	var errs []error
	for _, name := range append([]string{identityFile, identityFile + ".tmp"}, append(subdirs, lockFile, restoring)...) {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

// syncDir puts the names in a directory on the disk. Not all file systems can.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// WriteFile replaces a file in one step, so that a crash leaves the old one or the new one.
func WriteFile(path string, data []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
