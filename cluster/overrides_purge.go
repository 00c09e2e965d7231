package cluster

import (
	"context"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
)

// purgeEvery is how often the meta leader looks for expired overrides. It is awake when the
// next one expires; one that is set meanwhile for a shorter time ends this much late.
const purgeEvery = 100 * time.Millisecond

// purger deletes expired overrides while this node leads the meta group.
func (n *Node) purger() {
	defer n.done.Done()
	wake := time.NewTimer(purgeEvery)
	defer wake.Stop()
	for {
		select {
		case <-n.stop:
			return
		case <-wake.C:
		}
		n.purge(quota.Time(time.Now().UnixNano()))
		wait := purgeEvery
		if next := n.meta.overrides.Load().soonest().Sub(quota.Time(time.Now().UnixNano())); next > 0 {
			wait = min(wait, next+time.Millisecond)
		}
		wake.Reset(wait)
	}
}

// purge proposes to delete what has expired. All replicas compare with the time
// in the entry, not with their clocks.
func (n *Node) purge(now quota.Time) {
	g := n.host.Group(metaGroup)
	if g == nil || n.meta.overrides.Load().soonest() > now {
		return
	}
	if _, _, serving := g.Leader(); !serving {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	_, err := n.applyMeta(ctx, encode(&raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_PurgeOverrides{
		PurgeOverrides: &raftlogv1.PurgeOverrides{BeforeUnixNanos: int64(now)},
	}}))
	if err != nil {
		n.log.Debug("expired overrides were not deleted; next time", "err", err)
	}
}
