package aggregator

import (
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// denyCache lets a key repeat a refusal without a lock: a cost of at least cost cannot pass before until. Each lock
// of the bucket clears it.
type denyCache struct {
	until   atomic.Int64 // quota.Time; 0 means empty
	cost    atomic.Int64 // Units: the refused cost
	refused atomic.Int64 // Units; not yet in bucket.refused
}

// longestDenial bounds the time for which a refusal is repeated without locking the bucket.
const longestDenial = 20 * time.Millisecond

// denies reports whether the cost cannot pass now, and counts it as refused if so.
func (s *denyCache) denies(clock Clock, cost quota.Units) bool {
	until := s.until.Load()
	if until == 0 || int64(cost) < s.cost.Load() || int64(clock()) >= until {
		return false
	}
	countAtomic(&s.refused, cost)
	return true
}

// countAtomic is [quota.Units.Count] of a counter that is read without a lock.
func countAtomic(n *atomic.Int64, u quota.Units) {
	for {
		was := n.Load()
		if n.CompareAndSwap(was, int64(quota.Units(was).Count(u))) {
			return
		}
	}
}

// clear empties the cache, and returns the refused cost. Held by bucket.mu.
func (s *denyCache) clear() quota.Units {
	if s.until.Load() == 0 {
		return quota.Units(s.take())
	}
	s.until.Store(0)
	return quota.Units(s.take())
}

// take returns the cost refused since the last call.
func (s *denyCache) take() int64 {
	if s.refused.Load() == 0 {
		return 0
	}
	return s.refused.Swap(0)
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
