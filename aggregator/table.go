package aggregator

import (
	"strings"
	"sync/atomic"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// slot is one counter of a limit and the buckets of its keys. It outlives
// versions of the limit, so that a change refills nothing.
type slot struct {
	name quota.LimitName
	rule atomic.Pointer[rule]
	gone atomic.Bool // the limit was removed
	used atomic.Bool // inline: looked up since the last sweep
	size atomic.Int64
	keys *keys
	sum  *tally
}

// rule is what a slot serves until the limits change.
type rule struct {
	limit   *quota.Limit
	charges []charge // what a check of the limit charges; empty for counters that no check names
	simple  bool     // one token bucket, decided and enforced here: the hot path
}

// charge is quota.Charge with its slot.
type charge struct {
	slot  *slot
	up    int
	floor bool
}

// table finds buckets. Readers take no lock.
type table struct {
	slots     atomic.Pointer[map[quota.LimitName]*slot]
	inline    inline
	size      atomic.Int64
	epochs    atomic.Uint64 // openings of keys so far
	questions atomic.Uint64 // to leaders, so far
	maxKeys   int64
	ranges    int
	overrides quota.Overrides
	cold      cold
	created   func(quota.Key)
	removed   func(quota.Key)
}

var noSlots map[quota.LimitName]*slot // before there are limits

// nextEpoch numbers an opening of a key, whichever goroutine opens it.
func (t *table) nextEpoch() quota.Seq { return quota.Seq(t.epochs.Add(1)) }

// nextQuestion names a question to a leader, whichever goroutine asks it.
func (t *table) nextQuestion() quota.Seq { return quota.Seq(t.questions.Add(1)) }

func (t *table) find(n quota.LimitName) *slot {
	if m := t.slots.Load(); m != nil {
		if s := (*m)[n]; s != nil {
			return s
		}
	}
	return t.inline.find(n)
}

// resolve finds the slot for a name, in the order of quota.Limits.Resolve, and
// the key that it is counted by.
func (t *table) resolve(n quota.LimitName, key string) (*slot, string) {
	m := t.slots.Load()
	if m == nil {
		m = &noSlots
	}
	if s := (*m)[n]; s != nil {
		return s, key
	}
	if n.IsInline() {
		return t.inline.slot(n), key
	}
	if s := (*m)[quota.LimitName{Namespace: n.Namespace, Limit: quota.Template}]; s != nil {
		return s, n.Limit + "/" + key
	}
	if s := (*m)[quota.LimitName{Namespace: n.Namespace, Limit: quota.Default}]; s != nil {
		return s, key
	}
	return (*m)[quota.Global], key
}

// setLimits swaps in the limits and returns the slots that ended.
func (t *table) setLimits(limits *quota.Limits) (ended []*slot) {
	next := map[quota.LimitName]*slot{}
	rules := map[quota.LimitName]*rule{}
	limits.Meters(func(l *quota.Limit) {
		s := t.find(l.LimitName)
		if s == nil {
			s = &slot{name: l.LimitName, keys: newKeys(), sum: &tally{}}
		}
		next[l.LimitName], rules[l.LimitName] = s, &rule{limit: l}
	})
	for name, r := range rules {
		for _, c := range limits.Charges(name) {
			r.charges = append(r.charges, charge{slot: next[c.Limit.LimitName], up: c.Up, floor: c.Floor})
		}
		r.simple = len(r.charges) == 1 && plain(r.limit)
		next[name].rule.Store(r)
	}
	if old := t.slots.Load(); old != nil {
		for n, s := range *old {
			if next[n] == nil {
				s.gone.Store(true)
				ended = append(ended, s)
			}
		}
	}
	t.slots.Store(&next)
	return ended
}

// plain reports whether tokens that are held decide alone, whatever the time.
func plain(l *quota.Limit) bool {
	return l.Kind == quota.TokenBucket && l.Class == quota.Counted && l.Decide == quota.Locally && l.Enforcement != quota.Off &&
		l.MaxCost == 0
}

// bucket returns the bucket of a key, making it if there is room; nil if not.
func (t *table) bucket(s *slot, key string) *bucket {
	if b := t.known(s, key); b != nil {
		return b
	}
	l := s.rule.Load().limit
	if size, own := t.size.Add(1), s.size.Add(1); size > t.maxKeys || l.MaxKeys > 0 && own > l.MaxKeys {
		t.leave(s)
		return nil
	}
	b, loaded := s.keys.LoadOrStore(t.fresh(s, key), &t.cold)
	if loaded {
		t.leave(s)
		return b
	}
	b.relock(t.overrides)
	if t.created != nil {
		t.created(quota.Key{LimitName: s.name, Key: b.key})
	}
	return b
}

// fresh is a bucket that nobody else knows yet.
func (t *table) fresh(s *slot, key string) *bucket {
	key = strings.Clone(key) // the caller's string may share a large buffer
	b := &bucket{slot: s, key: key, rng: shard.Of(quota.Key{LimitName: s.name, Key: key}, t.ranges)}
	b.relimit(t.overrides)
	return b
}

// known returns the bucket of a key, thawing it if it is frozen; nil if there is none.
func (t *table) known(s *slot, key string) *bucket {
	if b := s.keys.Load(key); b != nil || t.cold.size.Load() == 0 {
		return b
	}
	if !t.cold.has(s.keys.hash(key), s, key) {
		return s.keys.Load(key) // or it has just been thawed
	}
	b := s.keys.Thaw(t.fresh(s, key), &t.cold)
	if b != nil {
		b.relock(t.overrides)
	}
	return b
}

// relock takes over an override that was set since the first look, and has not found
// this bucket.
func (b *bucket) relock(all quota.Overrides) {
	b.lock()
	b.relimit(all)
	b.mu.Unlock()
}

// leave gives back the place of one bucket.
func (t *table) leave(s *slot) {
	t.size.Add(-1)
	s.size.Add(-1)
}

// drop removes a bucket that is marked dead.
func (t *table) drop(b *bucket) {
	if b.slot.keys.Delete(b) {
		t.leave(b.slot)
		if t.removed != nil {
			t.removed(quota.Key{LimitName: b.slot.name, Key: b.key})
		}
	}
}
