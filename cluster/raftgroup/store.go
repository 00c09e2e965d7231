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
)

// ErrDamaged says that a group's files cannot be used as they are. The error
// names the file and what helps; trying again does not.
var ErrDamaged = errors.New("damaged")

// damaged makes an error that an operator can act on.
func damaged(path string, why error) error {
	return fmt.Errorf("%s is %w: %w. Nothing was changed. If the group has other replicas, remove this node from the cluster, empty its data directory "+
		"and join it again; if not, restore a backup", path, ErrDamaged, why)
}

// openStore opens a group's log, or makes an empty one if there is none and
// fresh allows it.
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
			return nil, err // the disk, not what is on it
		}
		return nil, damaged(path, err)
	}
	return openBolt(path)
}

// createStore makes a log under another name and moves it into place when it is
// filled. So an empty file in its place is damage, never a crash at
// the first start.
func createStore(path string, fill func(*raftboltdb.BoltStore) error) (*raftboltdb.BoltStore, error) {
	temp := path + ".new"
	if err := os.RemoveAll(temp); err != nil {
		return nil, err
	}
	s, err := openBolt(temp)
	if err != nil {
		return nil, err
	}
	// It is closed under that name: bbolt's errors name the file as it was opened.
	if err := errors.Join(fill(s), s.Close()); err != nil {
		return nil, err
	}
	if err := os.Rename(temp, path); err != nil {
		return nil, err
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return openBolt(path)
}

// openBolt opens a file that is sound. What the check has missed is an error
// all the same, as long as bbolt meets it on this goroutine.
func openBolt(path string) (s *raftboltdb.BoltStore, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = damaged(path, fmt.Errorf("%v", p))
		}
	}()
	s, err = raftboltdb.New(raftboltdb.Options{
		Path: path,
		// The freelist is rebuilt at start instead of written on every commit.
		BoltOptions: &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, Timeout: 2 * time.Second},
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return s, nil
}
