package aggregator

import (
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/internal/quota"
)

// bucket is what the member knows of one key. The first fields are the hot
// path: they share a cache line, and only held is written there.
type bucket struct {
	held atomic.Int64 // Units spendable without asking; set back only under mu
	low  atomic.Int64 // below this the hot path asks for more

	asked atomic.Bool // on the stack of urgent buckets
	next  *bucket     // below it there; owned by whoever set asked

	slot *slot
	key  string
	rng  quota.RangeID
	own  atomic.Pointer[quota.Limit] // what an override makes of the slot's limit

	mu sync.Mutex
	state
}

// limit returns what counts for the key.
func (b *bucket) limit() *quota.Limit {
	if l := b.own.Load(); l != nil {
		return l
	}
	return b.slot.rule.Load().limit
}

// relimit takes over the override of the key, or that there is none.
func (b *bucket) relimit(all quota.Overrides) {
	l := b.slot.rule.Load().limit
	if own := quota.Effective(l, all, b.key); own != l {
		b.own.Store(own)
	} else {
		b.own.Store(nil)
	}
}

// take subtracts cost if that much is held. It is the common case of every
// decision: two loads and one compare-and-swap.
func (b *bucket) take(cost int64, urgent *stack) bool {
	for {
		h := b.held.Load()
		if h < cost {
			return false
		}
		if b.held.CompareAndSwap(h, h-cost) {
			if h-cost < b.low.Load() {
				urgent.push(b)
			}
			return true
		}
	}
}

// stack collects the buckets that want to report at once: any goroutine
// pushes, one drains. A bucket is on it, or waits after it, at most once: until
// whoever drained it clears asked.
type stack struct {
	head atomic.Pointer[bucket]
	wake atomic.Bool // set by the first push after a drain
}

func (s *stack) push(b *bucket) {
	if b.asked.Load() || !b.asked.CompareAndSwap(false, true) {
		return
	}
	for {
		h := s.head.Load()
		b.next = h
		if s.head.CompareAndSwap(h, b) {
			s.wake.Store(true)
			return
		}
	}
}

// drain empties the stack into f.
func (s *stack) drain(f func(*bucket)) {
	s.wake.Store(false)
	for b := s.head.Swap(nil); b != nil; {
		next := b.next
		b.next = nil
		f(b)
		b = next
	}
}

// nodeCount is how many nodes the cluster has: decisions read it while others join.
type nodeCount struct{ atomic.Int64 }
