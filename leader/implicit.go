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
// that have not reported what they hold, that have died, or that do not know the use by their previous
// process in that time. It returns when the node has reported, and knows that use: from its journal,
// as soon as the log has what the journal states.
//
// Windows have no implicit grant: the possible use by one node would be missing until the end of
// the window. Neither has a bucket that never refills: it would be missing for good.

// outstanding is an implicit grant of an earlier leader that is out of the pool. The node may hold its tokens until it
// is heard: it has reported or is dead. Then it may have used them, as far as they have not overflowed (overflow).
type outstanding struct {
	*process // of the node, without an incarnation
	heard    bool
	tokens   quota.Units
	since    quota.Time // the bucket has refilled earlier use
	until    quota.Time // when it is forgotten, if heard
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
		m := l.members[id]
		if m.gone && m.goneAt < since || m.reported && m.knowsUseSince(since) {
			continue
		}
		u := b.editUnusual()
		u.outstanding = append(u.outstanding, outstanding{process: l.processes.of(id, 0), tokens: taken, since: since, heard: m.gone || m.reported, until: now.Add(keepDead)})
		b.pool.Add(-taken)
	}
}

// refillTime is the age at which the use of an implicit grant no longer matters, because the bucket
// has refilled it.
func refillTime(b *bucket, taken quota.Units) time.Duration {
	return min(b.limit.Rate.TimeFor(taken), math.MaxInt64-leaseSlack) + leaseSlack
}

// knowsUseSince reports whether the node lives and has reported, or will report, all of its use since then.
func (m *member) knowsUseSince(t quota.Time) bool { return !m.gone && m.useKnownSince < t }

// settleOutstanding settles a node's outstanding grants: the node has reported what it holds, or is dead.
func (b *bucket) settleOutstanding(now quota.Time, id quota.NodeID, m *member) {
	u := b.unusual
	u.outstanding = slices.DeleteFunc(u.outstanding, func(c outstanding) bool {
		if c.node != id || !m.knowsUseSince(c.since) {
			return false
		}
		b.pool.Add(c.tokens)
		b.dirty = true
		return true
	})
	for i := range u.outstanding {
		if c := &u.outstanding[i]; c.node == id && !c.heard {
			c.heard, c.until = true, now.Add(keepDead)
		}
	}
}

// outstandingTokens returns the sum of the outstanding grants that nodes may still hold.
func (b *bucket) outstandingTokens() quota.Units {
	var sum quota.Units
	for _, c := range b.rarely().outstanding {
		if !c.heard {
			sum = sum.Plus(c.tokens)
		}
	}
	return sum
}

// usedOutstanding returns the sum of the outstanding grants that nodes no longer hold. Unused tokens of them return later.
func (b *bucket) usedOutstanding() quota.Units {
	var sum quota.Units
	for _, c := range b.rarely().outstanding {
		if c.heard {
			sum = sum.Plus(c.tokens)
		}
	}
	return sum
}

// forgetOutstanding drops outstanding grants of which nothing can return.
func (b *bucket) forgetOutstanding(now quota.Time) {
	if u := b.unusual; u != nil {
		u.outstanding = slices.DeleteFunc(u.outstanding, func(c outstanding) bool { return c.heard && (c.tokens <= 0 || now > c.until) })
	}
}

// hasOutstanding reports whether an implicit grant of an earlier leader is out of the pool.
func (b *bucket) hasOutstanding() bool { return len(b.rarely().outstanding) > 0 }

// firstPromise is the promise to a member that is not in the log yet: the implicit grant, if the member may have one.
func (b *bucket) firstPromise(now quota.Time, al *allocation) promise {
	total := al.used.Plus(al.over)
	p := promise{at: now, total: total, high: total}
	if !b.hadImplicit(al.node) {
		p.addImplicit(b.implicit)
	}
	return p
}

// hadImplicit reports whether earlier processes of the node may have used an implicit grant that the log does not state:
// by an earlier leader, or by this one. A new leader sets aside only one for each node.
func (b *bucket) hadImplicit(id quota.NodeID) bool {
	return slices.ContainsFunc(b.rarely().outstanding, func(c outstanding) bool { return c.node == id }) ||
		slices.ContainsFunc(b.allocations, func(al allocation) bool { return al.node == id && al.dead && (al.beyondLog() || al.unsaved()) })
}

// beyondLog reports whether a promise to the member contains an implicit grant that the log does not state.
func (al *allocation) beyondLog() bool {
	g := al.log()
	return g.promised.beyondLog || slices.ContainsFunc(g.pending, func(p promise) bool { return p.beyondLog })
}

// reopen reopens the allocation of a member that uses a closed key again. The member gets the implicit grant again,
// unless a promise to it may still contain one that the log does not state (beyondLog): a new leader sets aside only
// one for each node.
func (b *bucket) reopen(al *allocation) {
	if al.closed = false; !b.promises() {
		return
	}
	log := al.log()
	if al.beyondLog() || b.hadImplicit(al.node) {
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
