package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/raftgroup/sharedlog"
	"github.com/quorate/quorate/internal/quota"
)

// Backup returns the group's state on this replica, leader or not. It reads the newest snapshot,
// and takes one first if any entry has been applied since the last. index and term belong to the
// last entry in the snapshot; size is in bytes. The snapshot's checksum has been verified. The
// caller must close r but need not hurry: the snapshot stays readable when newer ones replace it.
// To back up everything acknowledged so far, call ConfirmLeadership on the leader first. Backup
// returns ErrNotReady if this replica has applied nothing yet.
func (g *Group) Backup(ctx context.Context) (index, term uint64, size int64, r io.ReadCloser, err error) {
	for range snapshotTries {
		meta, err := g.newest(ctx)
		if err != nil {
			return 0, 0, 0, nil, err
		}
		if _, r, err = g.snaps.Open(meta.ID); err == nil {
			return meta.Index, meta.Term, meta.Size, r, nil
		}
		if !errors.Is(err, fs.ErrNotExist) { // otherwise newer snapshots have replaced this one
			return 0, 0, 0, nil, fmt.Errorf("backup of group %s: snapshot %s: %w", g.name, meta.ID, err)
		}
	}
	return 0, 0, 0, nil, fmt.Errorf("%w: snapshots of group %s are replaced faster than they are opened", ErrNotReady, g.name)
}

// newest returns a snapshot that holds every entry applied so far. It takes one if needed.
func (g *Group) newest(ctx context.Context) (*raft.SnapshotMeta, error) {
	applied := g.fsm.index.Load()
	for _, take := range []bool{false, true} {
		if take {
			if err := g.Snapshot(ctx); err != nil {
				return nil, fmt.Errorf("backup of group %s: %w", g.name, err)
			}
		}
		list, err := g.snaps.List()
		if err != nil {
			return nil, fmt.Errorf("backup of group %s: %w", g.name, err)
		}
		if len(list) > 0 && list[0].Index >= applied {
			return list[0], nil
		}
	}
	return nil, fmt.Errorf("%w: group %s has nothing to back up here", ErrNotReady, g.name)
}

// SeedGroup writes the files of a group that starts from a snapshot, with this node as its only
// voter. A restored cluster begins this way. dir is the Config.Dir of a host that is not running.
// index and term are the values that Backup returned, both at least 1; the new group counts on
// from them. SeedGroup fails if the group already has files. If it is interrupted, it leaves
// files that New rejects.
func SeedGroup(dir string, group uint32, self quota.NodeID, index, term uint64, data io.Reader) error {
	if err := seedGroup(dir, group, self, index, term, data); err != nil {
		return fmt.Errorf("raftgroup: seed group %s: %w", GroupName(group), err)
	}
	return nil
}

func seedGroup(dir string, group uint32, self quota.NodeID, index, term uint64, data io.Reader) error {
	snapDir := snapshotDir(dir, group)
	if self == "" || index == 0 || term == 0 {
		return fmt.Errorf("self: %q, index: %d, term: %d; all must be set", self, index, term)
	}
	holds, err := Holds(dir, group)
	if err != nil {
		return err
	}
	if holds {
		return fmt.Errorf("%s holds the group (%w)", logPath(dir), fs.ErrExist)
	}
	if _, err := os.Lstat(snapDir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists (%w); the group must have no files", snapDir, errors.Join(err, fs.ErrExist))
	}
	if err := seedSnapshot(snapDir, self, index, term, data); err != nil {
		return err
	}
	l, err := sharedlog.Open(logPath(dir), sharedlog.Options{})
	if err != nil {
		return err
	}
	g, err := l.Group(group)
	if err == nil {
		err = g.Found(term, nil) // raft continues from it: the next leader's term is higher
	}
	return errors.Join(err, l.Close())
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
