// Package datadir manages the top level of a node's data directory: the lock that keeps other
// processes out, the file that identifies the owner of the data, and the mark of an incomplete
// restore.
package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/syncdir"
)

// Format is the version of a data directory's layout.
const Format = 1

const (
	identityFile = "node.json"
	lockFile     = "LOCK"
	// restoring is the file that marks a data directory while a backup is restored into it.
	restoring = "RESTORING"
)

// Identity identifies the owner of a data directory. It is stored in node.json.
type Identity struct {
	Format      int          `json:"format"`
	Cluster     string       `json:"cluster"`
	Node        quota.NodeID `json:"node"`
	Ranges      int          `json:"ranges"`
	Incarnation uint64       `json:"incarnation"`
	// First is the first incarnation of the node that used these data.
	First uint64 `json:"first"`

	// Joined maps the members at the time this node joined to their peer addresses; it is empty on
	// a node that created its cluster. A node that stops before it has a copy of the membership
	// looks for the cluster at these addresses, and never creates one of its own.
	Joined map[quota.NodeID]string `json:"joined,omitempty"`
}

// Read returns the identity of a data directory. there is false if the directory has none yet.
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

// Write atomically replaces the identity of a data directory.
func (id Identity) Write(dir string) error {
	data, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	return syncdir.WriteFile(filepath.Join(dir, identityFile), append(data, '\n'))
}

// Check returns an error that names the first difference from the wanted identity.
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

// Lock is the lock of a data directory. It keeps other processes out.
type Lock struct{ f *flock.Flock }

// Close releases the lock.
func (l *Lock) Close() error { return l.f.Close() }

// Open locks a data directory, and creates it if it does not exist. It returns an error if a
// restore into the directory is incomplete.
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
	if err := syncdir.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	f := flock.New(filepath.Join(dir, lockFile), flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	switch locked, err := f.TryLock(); {
	case err != nil:
		return nil, errors.Join(fmt.Errorf("data directory: %w", err), f.Close())
	case !locked:
		return nil, errors.Join(fmt.Errorf("data directory %s: is in use by another process", dir), f.Close())
	}
	return &Lock{f}, nil
}

// CheckEmpty returns an error if the directory has content that rules out a restore.
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
		case "lost+found": // created by the file system
		case restoring:
			return cutShort(dir)
		default:
			return fmt.Errorf("data directory %s: there is %q in it; a backup is restored into an empty directory: name another one", dir, e.Name())
		}
	}
	return nil
}

// BeginRestore creates, locks and marks a directory. No node starts with it before EndRestore.
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

// EndRestore makes the directory usable for a node; subdirs are the subdirectories that the restore
// made.
func EndRestore(dir string, id Identity, subdirs ...string) error {
	if err := id.Write(dir); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	for _, d := range append([]string{"."}, subdirs...) { // before the mark is removed
		if err := syncdir.Sync(filepath.Join(dir, d)); err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
	}
	if err := os.Remove(filepath.Join(dir, restoring)); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return syncdir.Sync(dir)
}

// Discard removes everything that a restore has created, the mark last.
func Discard(dir string, subdirs ...string) error {
	var errs []error
	for _, name := range append([]string{identityFile, identityFile + ".tmp"}, append(subdirs, lockFile, restoring)...) {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}
