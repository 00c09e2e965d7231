package multiraft

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// snapshots are a group's snapshots on disk.
type snapshots struct {
	raft.SnapshotStore
	fsm *fsm // learns the configuration of a snapshot that is restored
}

// Open implements raft.SnapshotStore.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, r, err := s.SnapshotStore.Open(id)
	if err == nil {
		s.fsm.learn(meta.ConfigurationIndex, meta.Configuration)
	}
	return meta, r, err
}

// snapshotRetry is the pause before a snapshot that was not possible just then
// is tried again, and snapshotTries how often.
const (
	snapshotRetry = 10 * time.Millisecond
	snapshotTries = 200
)

// Snapshot saves the state machine now, and drops most of the log before it. It
// does nothing if nothing has been applied at all.
func (g *Group) Snapshot(ctx context.Context) error {
	for try := 1; ; try++ {
		i := g.cur.Load()
		if i == nil {
			return ErrClosed
		}
		err := i.wait(ctx, i.raft.Snapshot())
		if errors.Is(err, raft.ErrNothingNewToSnapshot) {
			return nil
		}
		if err == nil || !later(err) || try == snapshotTries {
			return err
		}
		select {
		case <-time.After(snapshotRetry):
		case <-ctx.Done():
			return err
		}
	}
}

// later says whether a snapshot is possible in a moment: when a configuration
// that is committed is applied, or a transfer of leadership is over.
func later(err error) bool {
	return errors.Is(err, raft.ErrLeadershipTransferInProgress) || strings.HasPrefix(err.Error(), "cannot take snapshot now")
}
