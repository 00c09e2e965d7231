package control

import (
	"context"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
)

// purgeEvery is how often the meta leader looks for expired overrides. It is awake when the
// next one expires; one that is set meanwhile for a shorter time ends this much late.
const purgeEvery = 100 * time.Millisecond

// purger deletes expired overrides while this node leads the meta group.
func (s *Store) purger() {
	defer close(s.done)
	wake := time.NewTimer(purgeEvery)
	defer wake.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-wake.C:
		}
		s.purge(s.node.Now())
		wait := purgeEvery
		if next := s.machine.overrides.Load().soonest().Sub(s.node.Now()); next > 0 {
			wait = min(wait, next+time.Millisecond)
		}
		wake.Reset(wait)
	}
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
