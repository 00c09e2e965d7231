package leader

import "github.com/quorate/quorate/internal/quota"

// Out returns what the books say that a member can spend at most at this
// moment, and all that it may have spent or hold since its last report.
func (l *Ledger) Out(now quota.Time, k quota.Key, id quota.NodeID) (standing, out quota.Units) {
	a := l.account(k)
	if a == nil {
		return 0, 0
	}
	a.advance(now)
	for i := range a.holders {
		if h := &a.holders[i]; h.node == id {
			return h.standing(), h.out
		}
	}
	return 0, 0
}

// Free returns the free pool of a key: tokens that no member holds.
func (l *Ledger) Free(now quota.Time, k quota.Key) (quota.Units, bool) {
	a := l.account(k)
	if a == nil {
		return 0, false
	}
	a.advance(now)
	return a.pool.Level(), true
}

// Booked returns what the open accounts of a counter have booked as admitted,
// over all its keys.
func (l *Ledger) Booked(n quota.LimitName) quota.Units {
	var sum quota.Units
	for k, a := range l.accounts {
		if k.LimitName == n && l.current(a) != nil {
			sum += a.admitted
		}
	}
	return sum
}
