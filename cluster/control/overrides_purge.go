package control

import (
	"context"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
)

// The meta leader looks for expired overrides at least every purgeEvery, and when the next one
// expires: but not sooner than purgeGap after the last time, so that many which expire one after
// the other share an entry of the log.
const (
	purgeEvery = 100 * time.Millisecond
	purgeGap   = 20 * time.Millisecond
)

// purger deletes expired overrides while this node leads the meta group.
func (s *Store) purger() {
	wake := time.NewTimer(purgeEvery)
	defer wake.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-wake.C:
		}
		s.purge(s.node.Now())
		wake.Reset(nextPurge(s.machine.overrides.Load().soonest(), s.node.Now()))
	}
}

// nextPurge returns how long the meta leader waits when the next override expires at soonest. One
// that should have gone already could not be deleted.
func nextPurge(soonest, now quota.Time) time.Duration {
	if left := soonest.Sub(now); left > 0 {
		return min(purgeEvery, max(left+time.Millisecond, purgeGap))
	}
	return purgeEvery
}

// purge proposes to delete what has expired. All replicas compare with the time
// in the entry, not with their clocks.
func (s *Store) purge(now quota.Time) {
	g := s.node.MetaGroup()
	if g == nil || s.machine.overrides.Load().soonest() > now {
		return
	}
	if _, _, serving := g.Leader(); !serving {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), proposeTimeout)
	defer cancel()
	_, err := s.ApplyMeta(ctx, snapshotio.Encode(&raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_PurgeOverrides{
		PurgeOverrides: &raftlogv1.PurgeOverrides{BeforeUnixNanos: int64(now)},
	}}))
	if err != nil {
		s.log.Debug("expired overrides were not deleted; next time", "err", err)
	}
}
