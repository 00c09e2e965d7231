package cluster

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/backup"
	"github.com/quorate/quorate/internal/quota"
)

// restoring is the file that is in a data directory while a backup is restored into
// it. A node does not start where it is.
const restoring = "RESTORING"

// RestoreConfig says what becomes of a backup.
type RestoreConfig struct {
	Dir     string       // data directory; empty, or made
	Node    quota.NodeID // whose it will be
	Cluster string       // name of the new cluster; empty is that of the old one
	// Progress is told how many bytes were read, of which reading; nil is nobody.
	Progress func(what string, bytes int64)
}

// RestoreBackup makes the data directory of a new cluster of one node, which begins
// with the state in a backup. Others can join it then.
//
// The file is read twice: first it is checked whole, as InspectBackup does, and
// nothing is made unless it is sound. What is not restored, from no file: members,
// placement, join tokens and the authority of the old cluster, and what its nodes
// held of limits. An error leaves the directory as it was, empty; so does the end of
// the process, but for files that no node starts with.
func RestoreBackup(open func() (io.ReadCloser, error), cfg RestoreConfig) (c *BackupContent, err error) {
	if cfg.Progress == nil {
		cfg.Progress = func(string, int64) {}
	}
	if err := checkRestore(&cfg); err != nil {
		return nil, err
	}
	if c, err = checkBackup(open, &cfg); err != nil {
		return nil, err
	}
	if cfg.Cluster == "" {
		cfg.Cluster = c.Cluster
	}
	lock, err := beginRestore(cfg.Dir)
	if err != nil {
		return nil, err
	}
	if err = restoreGroups(open, c, &cfg); err == nil {
		err = endRestore(&cfg, c.Head.Ranges)
	}
	if err != nil {
		err = errors.Join(err, emptyDir(cfg.Dir))
	}
	return c, errors.Join(err, lock.close())
}

// checkRestore returns all faults, before anything is read.
func checkRestore(cfg *RestoreConfig) error {
	var errs []error
	if cfg.Cluster != "" {
		errs = append(errs, quota.CheckName("cluster", cfg.Cluster))
	}
	errs = append(errs, quota.CheckName("node", string(cfg.Node)), notEmpty(cfg.Dir))
	return errors.Join(errs...)
}

// notEmpty says what is in the way in a directory.
func notEmpty(dir string) error {
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
			return fmt.Errorf("data directory %s: a restore into it was cut short; empty it, and restore again", dir)
		default:
			return fmt.Errorf("data directory %s: there is %q in it; a backup is restored into an empty directory: name another one", dir, e.Name())
		}
	}
	return nil
}

func checkBackup(open func() (io.ReadCloser, error), cfg *RestoreConfig) (*BackupContent, error) {
	in, err := open()
	if err != nil {
		return nil, err
	}
	defer in.Close() //nolint:errcheck // it was only read
	return InspectBackup(in, func(n int64) { cfg.Progress("checked", n) })
}

// beginRestore makes, locks and marks the directory.
func beginRestore(dir string) (*dirLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, restoring), nil, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory: %w", err), lock.close())
	}
	return lock, nil
}

// emptyDir takes everything away again that a restore has made; the mark goes last.
func emptyDir(dir string) error {
	var errs []error
	for _, name := range []string{"node.json", "node.json.tmp", "raft", "snapshots", "LOCK", restoring} {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

// restoreGroups reads the backup again and makes the groups' files.
func restoreGroups(open func() (io.ReadCloser, error), c *BackupContent, cfg *RestoreConfig) error {
	file, err := open()
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it was only read
	in, err := backup.NewReader(file)
	for err == nil {
		var g *backup.Group
		if g, err = in.Next(); err == nil {
			cfg.Progress("restored", in.Offset())
			err = restoreGroup(in, g, cfg)
		}
	}
	switch {
	case !errors.Is(err, io.EOF) || !in.Whole():
		return err
	case !slices.Equal(in.Manifest().Groups, c.Groups):
		return errors.New("the backup has changed while it was restored")
	}
	return nil
}

func restoreGroup(in io.Reader, g *backup.Group, cfg *RestoreConfig) error {
	filter := restoredRange
	if g.Name == backup.GroupName(0) {
		filter = restoredMeta
	}
	from, to := io.Pipe()
	filtered := make(chan struct{})
	go func() {
		defer close(filtered)
		_ = to.CloseWithError(filter(to, in))
	}()
	err := raftgroup.SeedGroup(cfg.Dir, g.Name, cfg.Node, max(g.Index, 1), max(g.Term, 1), from)
	_ = from.Close()
	<-filtered
	return err
}

// endRestore makes the directory one that a node starts with.
func endRestore(cfg *RestoreConfig, ranges int) error {
	id := identity{Format: dirFormat, Cluster: cfg.Cluster, Node: cfg.Node, Ranges: ranges, Incarnation: uint64(time.Now().UnixNano())}
	id.First = id.Incarnation
	if err := writeFile(filepath.Join(cfg.Dir, "node.json"), id); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	for _, dir := range []string{cfg.Dir, filepath.Join(cfg.Dir, "raft"), filepath.Join(cfg.Dir, "snapshots")} { // before the mark goes
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(cfg.Dir, restoring)); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return syncDir(cfg.Dir)
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

// notRestoring keeps a node from starting with half a state.
func notRestoring(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, restoring)); err == nil {
		return fmt.Errorf("data directory %s: a restore into it was cut short; empty it, and restore again", strings.TrimSuffix(dir, "/"))
	}
	return nil
}
