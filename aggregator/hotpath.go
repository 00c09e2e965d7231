package aggregator

import (
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/internal/quota"
)

// bucket is what the member knows of one key. The first fields are the hot path:
// they are one cache line, and with tokens held nothing else is read, and only held
// is written.
type bucket struct {
	held    atomic.Int64 // Units spendable without asking; set back only under mu
	low     atomic.Int64 // below this the hot path asks for more
	rest    atomic.Int64 // what the last estimate is beyond held; see lastEstimate
	special atomic.Bool  // own is set
	length  int32        // of the key
	short   [shortKey]byte

	asked atomic.Bool // on the stack of urgent buckets
	rng   quota.RangeID
	next  *bucket // below it there; owned by whoever set asked

	slot *slot
	key  string
	own  atomic.Pointer[quota.Limit] // what an override makes of the slot's limit

	mu sync.Mutex
	*state
}

// shortKey is up to which length a key is compared on the first cache line. The
// state is apart: it is large, and would move that line off its boundary.
const shortKey = 32

func newBucket(s *slot, key string, rng quota.RangeID) *bucket {
	b := &bucket{slot: s, key: key, length: int32(len(key)), rng: rng, state: new(state)}
	copy(b.short[:], key)
	return b
}

// is reports whether the bucket is that of a key.
func (b *bucket) is(key string) bool {
	if int(b.length) != len(key) {
		return false
	}
	if len(key) <= shortKey {
		return string(b.short[:len(key)]) == key
	}
	return b.key == key
}

// unlock ends what mu guards: what is to be said without it follows.
func (b *bucket) unlock() {
	b.publish()
	b.mu.Unlock()
}

// publish brings rest up to date. Held by b.mu.
func (b *bucket) publish() {
	s := b.state
	rest := s.est + s.estUsed - (s.in - s.loans + s.over) + s.refunded - s.estBack
	if int64(rest) != b.rest.Load() {
		b.rest.Store(int64(rest))
	}
}

// lastEstimate is the estimate of the moment at which it was last brought up to
// date, less own use since: what can be said without a clock. With the lock held it
// is exact; else it may be a moment late.
func (b *bucket) lastEstimate() quota.Units { return quota.Units(b.held.Load() + b.rest.Load()) }

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
	b.special.Store(b.own.Load() != nil)
}

// pay takes tokens that are held, of a limit that is simple, unless an override makes
// another of it. False decides nothing.
func (b *bucket) pay(cost int64, urgent *stack) bool {
	return cost > 0 && cost <= quota.MaxTokens && !b.special.Load() && b.take(cost*int64(quota.Token), urgent)
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
