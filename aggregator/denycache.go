package aggregator

import (
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// denyCache is what a key that has just refused says to those who come next, without a
// lock: what costs that much cannot pass before then. Whatever is done with the key
// under its lock ends that.
type denyCache struct {
	until   atomic.Int64 // quota.Time; 0 is open
	cost    atomic.Int64 // Units, and whatever costs more
	refused atomic.Int64 // Units, not in bucket.refused yet
}

// longestDenial bounds how long a refusal is repeated unseen.
const longestDenial = 20 * time.Millisecond

// denies reports whether the cost cannot pass now, and counts it if so.
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

// clear ends it, and returns what was refused. Held by bucket.mu.
func (s *denyCache) clear() quota.Units {
	if s.until.Load() == 0 {
		return quota.Units(s.take())
	}
	s.until.Store(0)
	return quota.Units(s.take())
}

// take returns what was refused since the last time.
func (s *denyCache) take() int64 {
	if s.refused.Load() == 0 {
		return 0
	}
	return s.refused.Swap(0)
}

// cacheDenial refuses the cost, and what costs more, until it could pass if nobody asked:
// by the estimate and all that was taken off it for others, by what is granted to this
// node, or because it is cut off. Held by b.mu.
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
