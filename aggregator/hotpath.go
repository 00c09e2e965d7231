package aggregator

import (
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/internal/quota"
)

// bucket is what the member knows of one key; its line is what the hot path needs of
// it, with tokens held.
type bucket struct {
	line atomic.Pointer[hotEntry] // set under mu; see hot

	asked atomic.Bool // on the stack of urgent buckets
	rng   quota.RangeID
	next  *bucket // below it there; owned by the goroutine that set asked

	entry *limitEntry
	key   string
	own   atomic.Pointer[quota.Limit] // what an override makes of the limit entry's limit
	due   quota.Time                  // its entry of the wheel, which counts; of who drives the member

	deny denyCache

	mu sync.Mutex
	state
}

// hot returns the line of the bucket: with mu held it stays the one, else what it
// holds may have moved.
func (b *bucket) hot() *hotEntry { return b.line.Load() }

// lock begins what mu guards.
func (b *bucket) lock() {
	b.mu.Lock()
	b.refused = b.refused.Count(b.deny.clear())
}

// unlock publishes the state and unlocks mu; calls that must not hold mu follow.
func (b *bucket) unlock() {
	b.publish()
	b.mu.Unlock()
}

// publish brings rest up to date. Held by b.mu.
func (b *bucket) publish() {
	s, l := &b.state, b.hot()
	rest := s.est + s.estUsed - (s.in - s.allocated + s.over) + s.refunded - s.estBack
	if s.as != nil && s.as.Ceiling == quota.Hard { // what others are presumed to have used refuses nobody there
		rest += s.presumed
	}
	if int64(rest) != l.offset.Load() {
		l.offset.Store(int64(rest))
	}
}

// lastEstimate is the estimate of the moment at which it was last brought up to
// date, less own use since: what can be said without a clock. Without the lock it may
// be a moment late.
func (l *hotEntry) lastEstimate() quota.Units { return quota.Units(l.held.Load() + l.offset.Load()) }

// warm is how many keys are looked at before the first of them is worked on.
const warm = 16

// warmUp reads what a key is begun with, and does nothing with it: so the processor
// fetches that for several keys at a time, where one by one each would be waited for.
// What is read may be read without the lock: the beginning of the bucket, where mu is,
// and its line.
func (b *bucket) warmUp() int64 { return b.deny.until.Load() + b.line.Load().offset.Load() }

// limit returns what counts for the key.
func (b *bucket) limit() *quota.Limit {
	if l := b.own.Load(); l != nil {
		return l
	}
	return b.entry.rule.Load().limit
}

// relimit takes over the override of the key, or its removal. Held by b.mu,
// unless nobody else knows the bucket yet.
func (b *bucket) relimit(all quota.Overrides) {
	l := b.entry.rule.Load().limit
	own := quota.Effective(l, all, b.key)
	if own == l {
		own = nil
	}
	b.own.Store(own)
	switch at := b.hot(); {
	case at == nil:
	case own != nil:
		at.kind.Or(special)
	default:
		at.kind.And(^uint32(special))
	}
}

// pay takes tokens that are held, of a limit that is simple, unless an override makes
// another of it. False decides nothing.
func (l *hotEntry) pay(cost int64, b *bucket, urgent *stack) bool {
	return cost > 0 && cost <= quota.MaxTokens && l.kind.Load()&special == 0 && l.take(cost*int64(quota.Token), b, urgent)
}

// take subtracts cost if that much is held.
func (b *bucket) take(cost int64, urgent *stack) bool { return b.hot().take(cost, b, urgent) }

// take is the common case of every decision: two loads and one compare-and-swap.
func (l *hotEntry) take(cost int64, b *bucket, urgent *stack) bool {
	for {
		h := l.held.Load()
		if h < cost {
			return false
		}
		if l.held.CompareAndSwap(h, h-cost) {
			if h-cost < l.low.Load() {
				urgent.push(b)
			}
			return true
		}
	}
}

// spend takes a cost out of what is held, as far as that goes, and returns the rest.
func (b *bucket) spend(cost quota.Units) (rest quota.Units) {
	l := b.hot()
	for {
		h := l.held.Load()
		if h <= 0 {
			return cost
		}
		paid := min(h, int64(cost))
		if l.held.CompareAndSwap(h, h-paid) {
			return cost - quota.Units(paid)
		}
	}
}

// stack collects the buckets that want to report at once: any goroutine
// pushes, one drains. A bucket is on it, or waits after it, at most once: until
// the goroutine that drained it clears asked.
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
