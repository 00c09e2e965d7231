package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
)

// identity is what a data directory belongs to, in node.json.
type identity struct {
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

const dirFormat = 1

// dirLock keeps a second process out of a data directory.
type dirLock struct{ f *os.File }

func (l *dirLock) close() error { return l.f.Close() }

// starts are incarnations: of this start, larger than every earlier one; of the
// first with these data; and of the one before this, 0 if there was none.
type starts struct{ inc, first, prior quota.Incarnation }

// openDir makes or opens a data directory, locks it, checks whose it is, and
// returns its starts. A node that has joined stays one: cfg says so then.
func openDir(cfg *Config) (lock *dirLock, s starts, err error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, s, fmt.Errorf("data directory: %w", err)
	}
	if lock, err = lockDir(cfg.Dir); err != nil {
		return nil, s, err
	}
	if err = notRestoring(cfg.Dir); err == nil {
		s, err = identify(cfg)
	}
	if err != nil {
		return nil, s, errors.Join(err, lock.close())
	}
	return lock, s, nil
}

func lockDir(dir string) (*dirLock, error) {
	f, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock := &dirLock{f}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s: is in use by another process", dir), lock.close())
	}
	return lock, nil
}

func identify(cfg *Config) (starts, error) {
	path := filepath.Join(cfg.Dir, "node.json")
	id := identity{Format: dirFormat, Cluster: cfg.Cluster, Node: cfg.Self, Ranges: cfg.Ranges}
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return starts{}, fmt.Errorf("data directory: %w", err)
	default:
		var have identity
		if err := json.Unmarshal(data, &have); err != nil {
			return starts{}, fmt.Errorf("%s: %w", path, err)
		}
		if err := have.check(id, cfg.Dir); err != nil {
			return starts{}, err
		}
		id.Incarnation, id.First, id.Joined = have.Incarnation, have.First, have.Joined
	}
	id.Joined = cfg.joined(id.Joined)
	prior := quota.Incarnation(id.Incarnation)
	id.Incarnation = max(id.Incarnation+1, uint64(time.Now().UnixNano()))
	if data == nil || !raftgroup.Exists(cfg.Dir, metaName) {
		id.First = id.Incarnation // also when somebody has deleted the logs alone
	}
	return starts{quota.Incarnation(id.Incarnation), quota.Incarnation(id.First), prior}, writeFile(path, id)
}

// joined makes cfg that of a node that joins, if this is one, and returns who was
// there then.
func (c *Config) joined(before map[quota.NodeID]string) map[quota.NodeID]string {
	switch {
	case c.Join:
		return c.Nodes
	case len(before) > 0:
		self := c.Nodes[c.Self]
		c.Join, c.Nodes = true, maps.Clone(before)
		c.Nodes[c.Self] = self
	}
	return before
}

func (have identity) check(want identity, dir string) error {
	switch {
	case have.Format != want.Format:
		return fmt.Errorf("data directory %s: has format %d; this version reads %d", dir, have.Format, want.Format)
	case have.Cluster != want.Cluster:
		return fmt.Errorf("data directory %s: belongs to cluster %q, not %q", dir, have.Cluster, want.Cluster)
	case have.Node != want.Node:
		return fmt.Errorf("data directory %s: belongs to node %q, not %q", dir, have.Node, want.Node)
	case have.Ranges != want.Ranges:
		return fmt.Errorf("data directory %s: has %d ranges, not %d; the number is fixed when a cluster is made", dir, have.Ranges, want.Ranges)
	}
	return nil
}

// writeFile replaces the file in one step, so that a crash leaves the old one
// or the new one.
func writeFile(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeBytes(path, append(data, '\n'))
}

func writeBytes(path string, data []byte) error {
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
