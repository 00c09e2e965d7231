package leader

import (
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Under hard nothing may be granted that a later leader would not know of. The
// log says what was promised; and so that the first use of a key need not wait
// for it, an equal part of every bucket is promised to every node without being
// said: unlogged. More would leave nothing after a restart of all nodes. A new
// leader takes that off what a key begins with, for each node that may hold it or
// may have used it since the bucket would have refilled: those that have not told
// what they hold (claim), that have died, or that do not know what their process
// before this one used, since then. One that was restarted and has its journal
// knows: then no key begins with less.
//
// Windows have no such part: what one node might have used of a window would be
// missing until its end.

// claim is what a node may hold of a key by an earlier leader's unlogged promise.
type claim struct {
	node   quota.NodeID
	tokens quota.Units
}

// unlogged is what each of the nodes may be granted before the log knows of it.
func (l *Ledger) unlogged(a *account) quota.Units {
	return l.unloggedOf(a, l.nodes)
}

// unloggedOf is unlogged in a cluster of so many nodes.
func (l *Ledger) unloggedOf(a *account, nodes int) quota.Units {
	if !a.promises() || a.tier.Kind != quota.TokenBucket {
		return 0
	}
	u := a.limit.BurstUnits() / quota.Units(max(1, nodes))
	return u - u%quota.Token
}

// beginUnlogged begins what is unlogged of an account that has just been opened; logged
// is what its line in the log says.
func (l *Ledger) beginUnlogged(now quota.Time, a *account, logged quota.Units) {
	if a.unlogged = l.unlogged(a); !a.promises() {
		return
	}
	taken := max(a.unlogged, logged)
	if l.cfg.Fewest > 0 {
		taken = max(taken, l.unloggedOf(a, min(l.nodes, l.cfg.Fewest)))
	}
	if l.first || taken == 0 {
		return
	}
	since := now.Add(-refills(a, taken))
	for _, id := range slices.Sorted(maps.Keys(l.members)) {
		switch m := l.members[id]; {
		case m.gone && m.goneAt < since, m.spoke && m.since < since:
		case m.gone, m.spoke:
			a.pool.Add(-taken)
		default:
			a.claims = append(a.claims, claim{id, taken})
			a.pool.Add(-taken)
		}
	}
}

// refills is how long ago what was used of an unlogged promise is as good as
// never used.
func refills(a *account, taken quota.Units) time.Duration {
	return a.limit.Rate.TimeFor(taken) + leaseSlack
}

// hear settles a node's claim: the node reports what it holds and has used of the key
// itself, except for what a process before it may have used.
func (a *account) hear(now quota.Time, id quota.NodeID, m *member) {
	a.claims = slices.DeleteFunc(a.claims, func(c claim) bool {
		if c.node != id {
			return false
		}
		if !m.gone && m.since < now.Add(-refills(a, c.tokens)) {
			a.pool.Add(c.tokens)
		}
		return true
	})
}

// claimed is what nodes may hold by claims.
func (a *account) claimed() quota.Units {
	var sum quota.Units
	for i := range a.claims {
		sum = sum.Plus(a.claims[i].tokens)
	}
	return sum
}

// implied is the promise to a member that the log does not know yet.
func (a *account) implied(now quota.Time, h *holder) promise {
	total := h.used.Plus(h.over)
	return promise{at: now, total: total, high: total.Plus(a.unlogged), cap: a.unlogged}
}
