package leader

import "github.com/quorate/quorate/internal/quota"

// Out returns the most that a member can spend at this moment, and all tokens that it may hold or
// may have spent since its last report.
func (l *Ledger) Out(now quota.Time, k quota.Key, id quota.NodeID) (standing, out quota.Units) {
	b := l.bucket(k)
	if b == nil {
		return 0, 0
	}
	b.advance(now)
	for i := range b.allocations {
		if al := &b.allocations[i]; al.node == id {
			return al.standing(), al.out
		}
	}
	return 0, 0
}

// Free returns the pool of a key: the tokens that no member holds.
func (l *Ledger) Free(now quota.Time, k quota.Key) (quota.Units, bool) {
	b := l.bucket(k)
	if b == nil {
		return 0, false
	}
	b.advance(now)
	return b.pool.Level(), true
}

// Booked returns the admitted Units that are booked in the open buckets of a counter.
func (l *Ledger) Booked(n quota.LimitName) quota.Units {
	var sum quota.Units
	for b := range l.buckets.all() {
		if b.of != n {
			continue
		}
		wasPacked := b.isPacked()
		if l.current(b) != nil {
			sum += b.admitted
			l.repackBucket(b, wasPacked)
		}
	}
	return sum
}
