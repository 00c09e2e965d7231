package aggregator

import "github.com/quorate/quorate/internal/quota"

// Leave ends the member's relation to the leader of a range, and returns its last reports to it: all open keys, with
// their counters, as final. Held tokens are given back. Every key then counts from 0 in a new epoch, so that the next
// leader receives none of these counts; estimates continue. The range has no leader until SetLeader. Leave is for
// members that can deliver the reports to that leader, or to the node that takes over its books, however late; the
// last report is marked Full. Without a leader it returns nil.
func (a *Aggregator) Leave(now quota.Time, r quota.RangeID) []quota.Report {
	rt := &a.ranges[r]
	if rt.leader == "" {
		return nil
	}
	a.urgent.drain(func(b *bucket) { a.soon = append(a.soon, b) })
	for _, b := range a.soon {
		b.lock()
		if !b.dead && b.phase != closed && b.rng == r {
			a.list(b)
		}
		b.unlock()
	}
	buf, first := &Buffer{}, rt.seq+1
	buf.reset(len(a.ranges))
	for _, b := range rt.open {
		a.leave(now, b, rt, buf)
	}
	a.finish(now, r, buf, first)
	rt.leader, rt.needsFull, rt.full, rt.asked = "", false, fullReport{}, 0
	return buf.reports
}

// leave writes the last entry of a key and starts its next epoch, because no answer will arrive.
func (a *Aggregator) leave(now quota.Time, b *bucket, rt *route, buf *Buffer) {
	b.lock()
	defer b.unlock()
	l, want := b.limit(), b.want
	b.roll(now, l)
	b.accrue(now)
	rate, lease, opened := b.rate, b.lease, b.changed
	b.expire()
	b.estimate(now, l, false)
	if l.Ceiling == quota.Hard { // others may spend at once what is returned: calls that are under way count as use
		b.rare().left++
		b.undecided = 0
		b.setBefore(b.before, 0)
	}
	e := a.addLine(now, b, buf)
	b.fillEntry(e, now, rt)
	e.Final, e.Learn, e.Want = true, nil, 0
	others, stale, ceded := b.others, b.stale, b.presumed
	a.openBucket(now, b, l)
	b.over, b.estUsed = b.undecided, b.undecided // these calls are decided in the new epoch
	b.skipTally()
	b.others, b.stale, b.presumed = others, stale, ceded
	if b.hasLevel || rate > 0 { // it is not cut off later because of the new epoch
		b.lease = lease
	}
	b.changed, b.want, b.sentAt = opened, want, 0
}
