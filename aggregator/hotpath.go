package aggregator

import (
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/internal/quota"
)

// bucket is the state of one key. Its hot entry (line) is the part that decides while tokens are held.
type bucket struct {
	entryPtr atomic.Pointer[hotEntry] // set under mu; see hot
	deny     denyCache                // in the first cache line, of which a flood of refusals writes nothing

	entry *limitEntry
	key   string
	own   atomic.Pointer[quota.Limit] // the limit that results from an override, or nil

	rng   quota.RangeID
	asked atomic.Bool // in the stack of urgent buckets

	next     *bucket      // below it in the stack; owned by the goroutine that set asked
	due      quota.Time   // time of the wheel entry that counts; owned by the member's goroutine
	repeated atomic.Int64 // Units that deny has refused; not yet in refused

	mu sync.Mutex
	state
}

// hot returns the hot entry of the bucket. With mu held it remains the current one; otherwise its tokens may have
// moved to another.
func (b *bucket) hot() *hotEntry { return b.entryPtr.Load() }

// lock locks mu and takes over refusals from the deny cache, which it clears.
func (b *bucket) lock() {
	b.mu.Lock()
	b.endDenials()
}

// unlock publishes the state and unlocks mu. Calls that must not hold mu come after it.
func (b *bucket) unlock() {
	b.publish()
	b.mu.Unlock()
}

// publish updates the hot entry's offset. Held by b.mu.
func (b *bucket) publish() {
	s, l := &b.state, b.hot()
	rest := s.est + s.estUsed - (s.in - s.allocated + s.over) + s.refunded - s.estBack
	if s.as != nil && s.as.Ceiling == quota.Hard { // presumed use by others refuses no check of a hard limit
		rest += s.presumed
	}
	if int64(rest) != l.offset.Load() {
		l.offset.Store(int64(rest))
	}
}

// lastEstimate returns the estimate as of its last update, less own use since: the remaining tokens without a clock.
// Without the lock it may be outdated for a moment.
func (l *hotEntry) lastEstimate() quota.Units { return quota.Units(l.held.Load() + l.offset.Load()) }

// prefetchBatch is the number of keys whose memory is read ahead of processing.
const prefetchBatch = 16

// prefetch reads the memory with which the work on a key begins, and discards it, so that the processor fetches that of
// several keys at a time. It reads only fields that need no lock: near mu, and the hot entry.
func (b *bucket) prefetch() int64 { return b.repeated.Load() + b.entryPtr.Load().offset.Load() }

// limit returns the limit that applies to the key.
func (b *bucket) limit() *quota.Limit {
	if l := b.own.Load(); l != nil {
		return l
	}
	return b.entry.rule.Load().limit
}

// relimit applies the key's override, or its removal. Held by b.mu, unless no other goroutine knows the bucket yet.
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

// pay takes a cost in tokens out of held, for a simple limit, unless an override changes the limit. False decides
// nothing.
func (l *hotEntry) pay(cost int64, b *bucket, urgent *stack) bool {
	return cost > 0 && cost <= quota.MaxTokens && l.kind.Load()&special == 0 && l.take(cost*int64(quota.Token), b, urgent)
}

// take subtracts cost from held if enough is held.
func (b *bucket) take(cost int64, urgent *stack) bool { return b.hot().take(cost, b, urgent) }

// take is the most frequent decision: two loads and one compare-and-swap.
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

// spend takes a cost out of held tokens, as far as they suffice, and returns the rest.
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

// stack collects the buckets that are to report at once. Any goroutine pushes; one drains. A bucket is in it, or
// waits after it, at most once: until the goroutine that drained it clears asked.
type stack struct {
	head atomic.Pointer[bucket]
	wake atomic.Bool // set by the first push after a drain
}

// push adds a bucket and wakes the goroutine that drains.
func (s *stack) push(b *bucket) {
	if s.add(b) {
		s.wake.Store(true)
	}
}

// add adds a bucket, and returns false if it is queued already. The goroutine that drains finds it at its next turn.
func (s *stack) add(b *bucket) bool {
	if b.asked.Load() || !b.asked.CompareAndSwap(false, true) {
		return false
	}
	for {
		h := s.head.Load()
		b.next = h
		if s.head.CompareAndSwap(h, b) {
			return true
		}
	}
}

// drain empties the stack and calls f with each bucket.
func (s *stack) drain(f func(*bucket)) {
	s.wake.Store(false)
	for b := s.head.Swap(nil); b != nil; {
		next := b.next
		b.next = nil
		f(b)
		b = next
	}
}

// nodeCount is the number of nodes of the cluster. Decisions read it while nodes join.
type nodeCount struct{ atomic.Int64 }
