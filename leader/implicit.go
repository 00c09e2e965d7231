package leader

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Under hard, nothing may be granted that a later leader would not know of. The log states the
// promises. The first use of a key should not wait for the log, so every node may be granted an
// equal part of every bucket without a line in the log: the implicit grant. More would leave
// nothing after a restart of all nodes. A new leader takes it out of the initial pool of a key once
// for each node that may hold it, or may have used it since the bucket would have refilled: nodes
// that have not reported what they hold (outstanding), that have died, or that do not know the use
// by their previous process in that time. A restarted node with its journal knows that use, so no
// key begins with less.
//
// Windows have no implicit grant: the possible use by one node would be missing until the end of
// the window. Neither has a bucket that never refills: it would be missing for good.

// outstanding is what a node may hold of a key by an earlier leader's implicit grant.
type outstanding struct {
	node   quota.NodeID
	tokens quota.Units
}

// implicitGrant is what each node may be granted before the log knows of it.
func (l *Ledger) implicitGrant(b *bucket) quota.Units {
	return l.implicitGrantOf(b, l.nodes)
}

// implicitGrantOf is implicitGrant in a cluster of this many nodes.
func (l *Ledger) implicitGrantOf(b *bucket, nodes int) quota.Units {
	u := b.limit.BurstUnits() / quota.Units(max(1, nodes))
	if !b.promises() || b.tier.Kind != quota.TokenBucket || b.limit.Rate.TimeFor(u) == math.MaxInt64 {
		return 0
	}
	return u - u%quota.Token
}

// beginImplicitGrant sets the implicit grant of a bucket that has just been opened, and takes out
// of its pool the grants of earlier leaders. logged is the implicit grant that its line in the log
// states.
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
	since := now.Add(-refillTime(b, taken))
	for _, id := range slices.Sorted(maps.Keys(l.members)) {
		switch m := l.members[id]; {
		case m.gone && m.goneAt < since, m.reported && m.useKnownSince < since:
		case m.gone, m.reported:
			b.pool.Add(-taken)
		default:
			s := b.editUnusual()
			s.outstanding = append(s.outstanding, outstanding{id, taken})
			b.pool.Add(-taken)
		}
	}
}

// refillTime is the age at which the use of an implicit grant no longer matters, because the bucket
// has refilled it.
func refillTime(b *bucket, taken quota.Units) time.Duration {
	return min(b.limit.Rate.TimeFor(taken), math.MaxInt64-leaseSlack) + leaseSlack
}

// settleOutstanding settles a node's outstanding grant: the node reports what it holds and has used. Only the
// use by an earlier process of the node may be unknown.
func (b *bucket) settleOutstanding(now quota.Time, id quota.NodeID, m *member) {
	b.unusual.outstanding = slices.DeleteFunc(b.unusual.outstanding, func(c outstanding) bool {
		if c.node != id {
			return false
		}
		if !m.gone && m.useKnownSince < now.Add(-refillTime(b, c.tokens)) {
			b.pool.Add(c.tokens)
		}
		return true
	})
}

// outstandingTokens is the sum of the outstanding grants.
func (b *bucket) outstandingTokens() quota.Units {
	var sum quota.Units
	for _, c := range b.rarely().outstanding {
		sum = sum.Plus(c.tokens)
	}
	return sum
}

// hasOutstanding reports whether nodes that have not reported to this leader have implicit grants.
func (b *bucket) hasOutstanding() bool { return len(b.rarely().outstanding) > 0 }

// implicitPromise is the promise to a member that is not in the log yet.
func (b *bucket) implicitPromise(now quota.Time, al *allocation) promise {
	total := al.used.Plus(al.over)
	p := promise{at: now, total: total, high: total}
	p.addImplicit(b.implicit)
	return p
}

// reopen reopens the allocation of a member that uses a closed key again. The member gets the implicit grant again,
// unless a promise to it may still contain one that the log does not state (beyondLog): a new leader sets aside only
// one for each node.
func (b *bucket) reopen(al *allocation) {
	if al.closed = false; !b.promises() {
		return
	}
	log := al.log()
	if log.promised.beyondLog || slices.ContainsFunc(log.pending, func(p promise) bool { return p.beyondLog }) {
		return
	}
	log.promised.addImplicit(b.implicit)
	for i := range log.pending {
		log.pending[i].addImplicit(b.implicit)
	}
}

// addImplicit adds the implicit grant to a promise.
func (p *promise) addImplicit(implicit quota.Units) {
	p.high, p.cap, p.beyondLog = p.high.Plus(implicit), max(p.cap, implicit), true
}
