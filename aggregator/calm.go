package aggregator

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// calmShare is the part of the burst that all nodes together may use of a calm key without a report. All clients
// together may use as much besides.
const calmShare = 0.05

// openCalm starts an epoch with a check. The key is calm if it may be: it reports once, when it closes, instead of at
// once and when it closes. Most keys are requested rarely, and are far below their limits.
func (a *Aggregator) openCalm(now quota.Time, b *bucket, l *quota.Limit) {
	a.startEpoch(now, b, l)
	if b.calm = b.mayBeCalm(l); b.calm {
		a.urgent.add(b)
	} else {
		a.urgent.push(b)
	}
}

// mayBeCalm reports whether the key may be calm: its limit is a soft token bucket whose counts do not endure, and the
// last level that a leader reported was at least half of the burst.
func (b *bucket) mayBeCalm(l *quota.Limit) bool {
	return l.Kind == quota.TokenBucket && l.Class == quota.Counted && !l.Endures() && !l.AsksLeader() && b.hasLevel && b.level >= l.BurstUnits()/2
}

// staysCalm reports whether a calm key stays so with a check of this cost: half of the burst is left by the estimate,
// and the key is requested rarely, about once in a sync interval or less. This member's part of calmShare has room for
// as many such checks as there may be until the key closes, and for the use that no leader knows of.
func (b *bucket) staysCalm(now quota.Time, l *quota.Limit, est, cost quota.Units, sync time.Duration, members int) bool {
	part := quota.RoundUnits(calmShare * float64(l.BurstUnits()) / float64(members))
	use := b.over.Plus(cost)
	rare := int64(use/cost) <= 1+int64(now.Sub(b.changed)/sync)
	return b.mayBeCalm(l) && est-cost >= l.BurstUnits()/2 && rare && use <= part && cost <= part/(1+openIntervals)
}

// markUrgent makes a key report at once. Held by b.mu.
func (a *Aggregator) markUrgent(b *bucket) {
	if a.urgent.push(b); b.calm {
		b.calm = false
		a.urgent.wake.Store(true) // it may be in the stack already, for a later turn
	}
}
