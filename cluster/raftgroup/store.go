package raftgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"github.com/quorate/quorate/cluster/datadir"
)

// ErrDamaged means that a group's files cannot be used as they are. The error names the file and
// the remedy; retrying does not help.
var ErrDamaged = errors.New("damaged")

// damaged returns an error that an operator can act on.
func damaged(path string, why error) error {
	return fmt.Errorf("%s is %w: %w. Nothing was changed. If the group has other replicas, remove this node from the cluster, empty its data directory "+
		"and join it again; if not, restore a backup", path, ErrDamaged, why)
}

// openStore opens a group's log. If there is none, it creates an empty one, or fails if fresh is
// false.
func openStore(path string, fresh bool) (*raftboltdb.BoltStore, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if !fresh {
			return nil, damaged(path, errors.New("missing, and its snapshots are there"))
		}
		return createStore(path, func(*raftboltdb.BoltStore) error { return nil })
	}
	if err != nil {
		return nil, err
	}
	if err := checkBolt(path); err != nil {
		if _, ok := errors.AsType[*fs.PathError](err); ok {
			return nil, err // an I/O error, not damage
		}
		return nil, damaged(path, err)
	}
	return openBolt(path)
}

// createStore creates a log under a temporary name, fills it and moves it into place. An empty
// file in its place is therefore always damage, never the trace of a crash at the first start.
func createStore(path string, fill func(*raftboltdb.BoltStore) error) (*raftboltdb.BoltStore, error) {
	temp := path + ".new"
	if err := os.RemoveAll(temp); err != nil {
		return nil, err
	}
	s, err := openBolt(temp)
	if err != nil {
		return nil, err
	}
	// Close it before the rename and reopen it: bbolt's errors name the file as it was opened.
	if err := errors.Join(fill(s), s.Close()); err != nil {
		return nil, err
	}
	if err := os.Rename(temp, path); err != nil {
		return nil, err
	}
	if err := datadir.SyncDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return openBolt(path)
}

// openBolt opens a file that has passed checkBolt. If bbolt panics on this goroutine over
// something the check missed, openBolt returns an error.
func openBolt(path string) (s *raftboltdb.BoltStore, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = damaged(path, fmt.Errorf("%v", p))
		}
	}()
	s, err = raftboltdb.New(raftboltdb.Options{
		Path: path,
		// bbolt rebuilds the freelist at start instead of writing it on every commit.
		BoltOptions: &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, Timeout: 2 * time.Second},
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return s, nil
}
