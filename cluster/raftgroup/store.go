package raftgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/quorate/quorate/cluster/raftgroup/sharedlog"
)

// ErrDamaged means that a node's files cannot be used as they are. The error names the file and
// the remedy; retrying does not help.
var ErrDamaged = sharedlog.ErrDamaged

// damaged returns an error that an operator can act on.
func damaged(path string, why error) error {
	if !errors.Is(why, ErrDamaged) {
		why = fmt.Errorf("%w: %w", ErrDamaged, why)
	}
	return fmt.Errorf("%s is %w. Nothing was changed. If its groups have other replicas, remove this node from the cluster, empty its data directory "+
		"and join it again; if not, restore a backup", path, why)
}

// logPath returns the file with the logs of all groups.
func logPath(dir string) string { return filepath.Join(dir, "raft", "log.db") }

// wrapStore puts a faulty store under the log of a node. Only tests set it.
var wrapStore func(dir string) func(sharedlog.Store) sharedlog.Store

// openLog opens the log of a node. It creates an empty one only if no group has a snapshot.
func openLog(dir string) (*sharedlog.Log, error) {
	path := logPath(dir)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		found, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", "snapshots", "*"))
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			return nil, damaged(path, fmt.Errorf("missing, and there is a snapshot, %s", found[0]))
		}
	}
	var o sharedlog.Options
	if wrapStore != nil {
		o.Wrap = wrapStore(dir)
	}
	l, err := sharedlog.Open(path, o)
	if errors.Is(err, ErrDamaged) {
		return nil, damaged(path, err)
	}
	return l, err
}

// Holds reports whether the log in a directory holds anything of a group: a term, a vote or
// entries. No host may be open on the directory. The error is ErrDamaged if the log is unusable.
func Holds(dir string, group uint32) (bool, error) {
	holds, err := sharedlog.Holds(logPath(dir), group)
	if errors.Is(err, ErrDamaged) {
		return false, damaged(logPath(dir), err)
	}
	return holds, err
}
