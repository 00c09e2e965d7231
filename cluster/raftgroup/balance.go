package raftgroup

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// saveRetry is the pause before retrying a snapshot that could not be written.
const saveRetry = 10 * time.Second

// balance returns leadership to preferred leaders and bounds the size of the logs until the host
// closes.
func (h *Host) balance() {
	since := map[quota.NodeID]time.Time{} // when this host first saw each node connected
	led := tenures{}
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, maxTransfers)
	for h.sleep(h.cfg.BalanceEvery) {
		now := time.Now()
		h.watchSpace()
		h.watchLatency()
		h.mu.Lock()
		h.expire(now)
		h.mu.Unlock()
		before := led
		led = tenures{} // drops groups that no longer exist
		for _, g := range h.all() {
			g.snapshotIfLarge(&wg)
			long := led.note(before, g, now) >= h.cfg.BalanceAfter
			to, must := g.transferTargets(func(id quota.NodeID) bool { return h.connectedLong(since, id, now) })
			if len(to) == 0 || !must && !(long && g.transfers.due(now)) {
				continue
			}
			if _, _, serving := g.Leader(); !serving {
				continue
			}
			select {
			case slots <- struct{}{}:
				wg.Go(func() {
					g.transferToOne(to)
					<-slots
				})
			default: // retry on the next tick
			}
		}
	}
}

// tenures records since when this node has led each group. The balancer leaves a new leader in
// place for a while; otherwise it would undo an operator's transfer before anybody saw it.
type tenures map[*Group]tenure

type tenure struct {
	term  uint64
	since time.Time
}

// note returns how long this node has led the group, based on the tenures recorded before, and
// records the current one. It returns 0 if this node is not serving as leader.
func (t tenures) note(before tenures, g *Group, now time.Time) time.Duration {
	_, term, serving := g.Leader()
	if !serving {
		return 0
	}
	one := before[g]
	if one.term != term {
		one = tenure{term, now}
	}
	t[g] = one
	return now.Sub(one.since)
}

// connectedLong reports whether a node has been connected for at least BalanceAfter.
func (h *Host) connectedLong(since map[quota.NodeID]time.Time, id quota.NodeID, now time.Time) bool {
	if !h.cfg.Net.Connected(id) {
		delete(since, id)
		return false
	}
	if since[id].IsZero() {
		since[id] = now
	}
	return now.Sub(since[id]) >= h.cfg.BalanceAfter
}

// transferTargets returns the nodes that should take over the group's leadership, best first: the
// preferred leader, or any eligible voter if this node must not lead. If must is true, the caller
// skips the limits on repeated transfers and the rest after a failed one, and targets need not
// have been connected for BalanceAfter.
func (g *Group) transferTargets(settled func(quota.NodeID) bool) (to []quota.NodeID, must bool) {
	h := g.host
	must = h.mustNotLead()
	may := func(id quota.NodeID) bool { return id != h.cfg.Self && !h.isExcluded(id) && (must || settled(id)) }
	if must {
		for _, id := range g.successors(h.cfg.Self) {
			if may(id) {
				to = append(to, id)
			}
		}
		return to, true
	}
	if id := *g.preferred.Load(); id != "" && g.isVoter(id) && may(id) {
		to = append(to, id)
	}
	return to, false
}

// transferToOne transfers leadership to the first target that is ready.
func (g *Group) transferToOne(to []quota.NodeID) {
	ctx, cancel := context.WithTimeout(g.host.ctx, 2*g.host.cfg.Timing.rpcTimeout())
	defer cancel()
	for _, id := range to {
		err := g.TransferTo(ctx, id)
		if err == nil {
			g.log.Info("leadership given back", "to", id)
			return
		}
		g.log.Debug("leadership not given back", "to", id, "err", err)
		if !errors.Is(err, ErrNotReady) {
			return
		}
	}
}
