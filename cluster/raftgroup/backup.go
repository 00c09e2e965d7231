package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/quorate/quorate/internal/quota"
)

// Backup returns the group's state as this replica holds it, leader or not: the
// newest snapshot, taken now if anything has been applied since the last one.
// index and term are those of the last entry in it, size is in bytes. Its
// checksum has been verified. The caller must close r, and may take its time:
// the snapshot stays readable when newer ones replace it. For all that was
// acknowledged before, call ConfirmLeadership on the leader first. ErrNotReady when
// nothing has been applied here yet.
func (g *Group) Backup(ctx context.Context) (index, term uint64, size int64, r io.ReadCloser, err error) {
	for range snapshotTries {
		meta, err := g.newest(ctx)
		if err != nil {
			return 0, 0, 0, nil, err
		}
		if _, r, err = g.snaps.Open(meta.ID); err == nil {
			return meta.Index, meta.Term, meta.Size, r, nil
		}
		if !errors.Is(err, fs.ErrNotExist) { // else newer ones have replaced it
			return 0, 0, 0, nil, fmt.Errorf("backup of group %s: snapshot %s: %w", g.opts.Name, meta.ID, err)
		}
	}
	return 0, 0, 0, nil, fmt.Errorf("%w: snapshots of group %s are replaced faster than they are opened", ErrNotReady, g.opts.Name)
}

// newest returns a snapshot that holds all that is applied now.
func (g *Group) newest(ctx context.Context) (*raft.SnapshotMeta, error) {
	applied := g.fsm.index.Load()
	for _, take := range []bool{false, true} {
		if take {
			if err := g.Snapshot(ctx); err != nil {
				return nil, fmt.Errorf("backup of group %s: %w", g.opts.Name, err)
			}
		}
		list, err := g.snaps.List()
		if err != nil {
			return nil, fmt.Errorf("backup of group %s: %w", g.opts.Name, err)
		}
		if len(list) > 0 && list[0].Index >= applied {
			return list[0], nil
		}
	}
	return nil, fmt.Errorf("%w: group %s has nothing to back up here", ErrNotReady, g.opts.Name)
}

// SeedGroup writes the files of a group whose state is a snapshot and whose only
// voter is this node: what a restored cluster begins with. dir is the Config.Dir
// of a host that does not run; index and term are those that Backup returned,
// both at least 1, so that what follows counts on from there. It refuses when
// the group has files already. Cut short, it leaves files that Open refuses and
// DropFiles deletes.
func SeedGroup(dir, name string, self quota.NodeID, index, term uint64, data io.Reader) error {
	if err := seedGroup(dir, name, self, index, term, data); err != nil {
		return fmt.Errorf("raftgroup: seed group %s: %w", name, err)
	}
	return nil
}

func seedGroup(dir, name string, self quota.NodeID, index, term uint64, data io.Reader) error {
	path, snapDir := logFile(dir, name), snapshotDir(dir, name)
	switch {
	case quota.CheckName("name", name) != nil:
		return quota.CheckName("name", name)
	case self == "" || index == 0 || term == 0:
		return fmt.Errorf("self: %q, index: %d, term: %d; all must be set", self, index, term)
	}
	for _, p := range []string{path, snapDir, path + ".new", filepath.Join(dir, "raft", name+droppedSuffix)} {
		if _, err := os.Lstat(p); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists (%w); the group must have no files", p, errors.Join(err, fs.ErrExist))
		}
	}
	for _, d := range []string{filepath.Dir(path), snapDir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	if err := seedSnapshot(snapDir, self, index, term, data); err != nil {
		return err
	}
	// Raft goes on from the term that it finds: the next leader's is higher.
	store, err := createStore(path, func(s *raftboltdb.BoltStore) error { return s.SetUint64(currentTerm, term) })
	if err != nil {
		return err
	}
	return store.Close()
}

func seedSnapshot(snapDir string, self quota.NodeID, index, term uint64, data io.Reader) error {
	snaps, err := newPrivateSnapshots(snapDir, newLogger(slog.New(slog.DiscardHandler), nil))
	if err != nil {
		return err
	}
	t := newTransport(nil, nil, self, 0, DefaultTiming())
	defer t.cancel()
	conf := raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Voter, ID: raft.ServerID(self), Address: raft.ServerAddress(self)}}}
	sink, err := snaps.Create(1, index, term, conf, index, t)
	if err != nil {
		return err
	}
	if _, err := io.Copy(sink, data); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}
