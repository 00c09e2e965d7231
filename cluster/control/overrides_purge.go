package control

import (
	"context"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
)

// The meta leader looks for expired overrides at least every purgeEvery, and when the next one
// expires. It waits at least purgeGap between two looks, so that overrides which expire in close
// succession share a log entry.
const (
	purgeEvery = 100 * time.Millisecond
	purgeGap   = 20 * time.Millisecond
)

// purger deletes expired overrides while this node leads the meta group. It goes by the earliest
// clock if the nodes do not agree: an override that one wrong clock deletes is lost.
func (s *Store) purger() {
	wake := time.NewTimer(purgeEvery)
	defer wake.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-wake.C:
		}
		s.purge(s.node.Earliest())
		wake.Reset(nextPurge(s.machine.overrides.Load().soonest(), s.node.Now()))
	}
}

// nextPurge returns how long the meta leader waits if the next override expires at soonest. If
// soonest has passed, the last purge failed, and it waits purgeEvery.
func nextPurge(soonest, now quota.Time) time.Duration {
	if left := soonest.Sub(now); left > 0 {
		return min(purgeEvery, max(left+time.Millisecond, purgeGap))
	}
	return purgeEvery
}

// purge proposes the deletion of expired overrides, if this node leads the meta group. All replicas
// compare with the time in the entry, not with their clocks.
func (s *Store) purge(now quota.Time) {
	g := s.node.MetaGroup()
	if g == nil || s.machine.overrides.Load().soonest() > now {
		return
	}
	if _, _, serving := g.Leader(); !serving {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, proposeTimeout)
	defer cancel()
	_, err := s.ApplyMeta(ctx, snapshotio.Encode(&raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_PurgeOverrides{
		PurgeOverrides: &raftlogv1.PurgeOverrides{BeforeUnixNanos: int64(now)},
	}}))
	if err != nil {
		s.log.Debug("expired overrides were not deleted; retrying later", "err", err)
	}
}
