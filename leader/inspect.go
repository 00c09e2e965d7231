package leader

import "github.com/quorate/quorate/internal/quota"

// Out returns what the books say that a member can spend at most at this
// moment, and all that it may have spent or hold since its last report.
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

// Free returns the free pool of a key: tokens that no member holds.
func (l *Ledger) Free(now quota.Time, k quota.Key) (quota.Units, bool) {
	b := l.bucket(k)
	if b == nil {
		return 0, false
	}
	b.advance(now)
	return b.pool.Level(), true
}

// Booked returns what the open buckets of a counter have booked as admitted,
// over all its keys.
func (l *Ledger) Booked(n quota.LimitName) quota.Units {
	var sum quota.Units
	for k, b := range l.buckets {
		if k.LimitName == n && l.current(b) != nil {
			sum += b.admitted
		}
	}
	return sum
}
