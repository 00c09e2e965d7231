package aggregator

import (
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// denyCache lets a key repeat a refusal without a lock: a cost of at least cost cannot pass before until. Each lock
// of the bucket clears it. Only the lock writes it, so that the processors that repeat a refusal share its cache line.
type denyCache struct {
	until atomic.Int64 // quota.Time; 0 means empty
	cost  atomic.Int64 // Units: the refused cost
}

const (
	// longestDenial bounds the time for which a refusal is repeated without locking the bucket.
	longestDenial = 20 * time.Millisecond
	// mostRepeated is the largest cost that is refused without locking the bucket. The sum of such costs cannot
	// overflow in longestDenial: that takes four million of them.
	mostRepeated = quota.Units(1) << 41
)

// denies reports whether the cost certainly cannot pass now, and counts it as refused if so.
func (b *bucket) denies(clock Clock, cost quota.Units) bool {
	until := b.deny.until.Load()
	if until == 0 || int64(cost) < b.deny.cost.Load() || cost > mostRepeated || int64(clock()) >= until {
		return false
	}
	b.repeated.Add(int64(cost))
	return true
}

// endDenials empties the cache, and counts what it has refused. Held by b.mu.
func (b *bucket) endDenials() {
	if b.deny.until.Load() != 0 {
		b.deny.until.Store(0)
	}
	if b.repeated.Load() != 0 {
		b.refused = b.refused.Count(quota.Units(b.repeated.Swap(0)))
	}
}

// cacheDenial caches the refusal of a cost until it could pass if nothing else happened: by the estimate without
// presumed use, by the granted rate, or because the lease ends. Held by b.mu.
func (b *bucket) cacheDenial(now quota.Time, l *quota.Limit, est, cost quota.Units) {
	if !b.hasLevel || b.own.Load() != nil || !plain(l) || l.Enforcement != quota.Enforce || !inFraction(l, b.key) {
		return
	}
	wait := min(longestDenial, b.lease.Sub(now), l.Rate.TimeFor(cost-est-b.presumed))
	if missing := cost - quota.Units(b.hot().held.Load()); b.rate > 0 {
		wait = min(wait, time.Duration(quota.MulDiv(int64(missing), int64(time.Second), int64(b.rate))))
	}
	if wait > 0 {
		b.deny.cost.Store(int64(cost))
		b.deny.until.Store(int64(now.Add(wait)))
	}
}
