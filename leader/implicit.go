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
// said: implicit. More would leave nothing after a restart of all nodes. A new
// leader takes that off what a key begins with, for each node that may hold it or
// may have used it since the bucket would have refilled: those that have not told
// what they hold (outstanding), that have died, or that do not know what their process
// before this one used, since then. One that was restarted and has its journal
// knows: then no key begins with less.
//
// Windows have no such part: what one node might have used of a window would be
// missing until its end.

// outstanding is what a node may hold of a key by an earlier leader's implicit promise.
type outstanding struct {
	node   quota.NodeID
	tokens quota.Units
}

// implicitGrant is what each of the nodes may be granted before the log knows of it.
func (l *Ledger) implicitGrant(b *bucket) quota.Units {
	return l.implicitGrantOf(b, l.nodes)
}

// implicitGrantOf is implicit in a cluster of so many nodes.
func (l *Ledger) implicitGrantOf(b *bucket, nodes int) quota.Units {
	if !b.promises() || b.tier.Kind != quota.TokenBucket {
		return 0
	}
	u := b.limit.BurstUnits() / quota.Units(max(1, nodes))
	return u - u%quota.Token
}

// beginImplicitGrant begins what is implicit of a bucket that has just been opened; logged
// is what its line in the log says.
func (l *Ledger) beginImplicitGrant(now quota.Time, b *bucket, logged quota.Units) {
	if b.implicit = l.implicitGrant(b); !b.promises() {
		return
	}
	taken := max(b.implicit, logged)
	if l.cfg.Fewest > 0 {
		taken = max(taken, l.implicitGrantOf(b, min(l.nodes, l.cfg.Fewest)))
	}
	if l.first || taken == 0 {
		return
	}
	since := now.Add(-refills(b, taken))
	for _, id := range slices.Sorted(maps.Keys(l.members)) {
		switch m := l.members[id]; {
		case m.gone && m.goneAt < since, m.reported && m.since < since:
		case m.gone, m.reported:
			b.pool.Add(-taken)
		default:
			b.outstanding = append(b.outstanding, outstanding{id, taken})
			b.pool.Add(-taken)
		}
	}
}

// refills is how long ago what was used of an implicit promise is as good as
// never used.
func refills(b *bucket, taken quota.Units) time.Duration {
	return b.limit.Rate.TimeFor(taken) + leaseSlack
}

// hear settles a node's outstanding grant: the node reports what it holds and has used of the key
// itself, except for what a process before it may have used.
func (b *bucket) hear(now quota.Time, id quota.NodeID, m *member) {
	b.outstanding = slices.DeleteFunc(b.outstanding, func(c outstanding) bool {
		if c.node != id {
			return false
		}
		if !m.gone && m.since < now.Add(-refills(b, c.tokens)) {
			b.pool.Add(c.tokens)
		}
		return true
	})
}

// outstandingTokens is what nodes may hold by outstanding grants.
func (b *bucket) outstandingTokens() quota.Units {
	var sum quota.Units
	for i := range b.outstanding {
		sum = sum.Plus(b.outstanding[i].tokens)
	}
	return sum
}

// implicitPromise is the promise to a member that the log does not know yet.
func (b *bucket) implicitPromise(now quota.Time, al *allocation) promise {
	total := al.used.Plus(al.over)
	return promise{at: now, total: total, high: total.Plus(b.implicit), cap: b.implicit}
}
