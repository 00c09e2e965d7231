package raftgroup

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// saveAgain is the pause before a snapshot that could not be written is tried
// again.
const saveAgain = 10 * time.Second

// balance gives leadership back to preferred leaders, and looks after the size
// of logs, until the host closes.
func (h *Host) balance() {
	since := map[quota.NodeID]time.Time{} // connected since, as seen here
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
		led = tenures{} // without groups that are gone
		for _, g := range h.all() {
			g.snapshotIfLarge(&wg)
			long := led.note(before, g, now) >= h.cfg.BalanceAfter
			to, must := g.transferTargets(func(id quota.NodeID) bool { return h.settled(since, id, now) })
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
			default: // at the next look
			}
		}
	}
}

// tenures are since when this node leads groups. Who has just been given a group keeps it for a while, or what an
// operator hands over would be back before anybody has seen it.
type tenures map[*Group]tenure

type tenure struct {
	term  uint64
	since time.Time
}

// note returns for how long this node has led the group, after what was noted before.
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

// settled says whether a node has been connected for long enough.
func (h *Host) settled(since map[quota.NodeID]time.Time, id quota.NodeID, now time.Time) bool {
	if !h.cfg.Net.Connected(id) {
		delete(since, id)
		return false
	}
	if since[id].IsZero() {
		since[id] = now
	}
	return now.Sub(since[id]) >= h.cfg.BalanceAfter
}

// transferTargets are whom this node should give the group's leadership to, the best
// first: the preferred leader, or when this node must not lead anybody who may. A
// node that must give it away neither spares the group a second move nor rests long
// after one that failed, nor waits until others have been connected for long.
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

// transferToOne gives leadership to the first that is ready for it.
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
