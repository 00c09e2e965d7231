package aggregator

import (
	"strings"
	"sync/atomic"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// limitEntry is one counter of a limit, and the buckets of its keys. It outlives versions of the limit, so that a
// change refills nothing.
type limitEntry struct {
	name quota.LimitName
	rule atomic.Pointer[rule]
	gone atomic.Bool // the limit was removed
	used atomic.Bool // inline: looked up since the last sweep
	size atomic.Int64
	fair atomic.Int64  // its share of the table, in keys
	all  *atomic.Int64 // the keys that count against fair: its own, or those of all inline limits
	keys *keys
	sum  *tally

	owner string // inline: whose place it has
}

func newLimitEntry(n quota.LimitName) *limitEntry {
	s := &limitEntry{name: n, keys: newKeys(), sum: &tally{}}
	s.all = &s.size
	return s
}

// rule is the version of a limit that a limit entry applies.
type rule struct {
	limit   *quota.Limit
	charges []charge // the counters that a check of the limit charges; empty for counters that no check names
	simple  bool     // one token bucket, decided and enforced here: the hot path
}

// charge is quota.Charge with a limit entry.
type charge struct {
	entry *limitEntry
	up    int
	floor bool
}

// table looks up buckets. Readers take no lock.
type table struct {
	entries   atomic.Pointer[map[quota.LimitName]*limitEntry]
	inline    inline
	size      atomic.Int64
	epochs    atomic.Uint64 // openings of keys so far
	requests  atomic.Uint64 // decide requests to leaders so far
	maxKeys   int64
	ranges    int
	overrides quota.Overrides
	compact   compactStore
	created   func(quota.Key)
	removed   func(quota.Key)
}

var noEntries map[quota.LimitName]*limitEntry // before the first limits

// nextEpoch returns the number of the next opening of a key. Any goroutine may call it.
func (t *table) nextEpoch() quota.Seq { return quota.Seq(t.epochs.Add(1)) }

// nextRequest returns the number of the next decide request. Any goroutine may call it.
func (t *table) nextRequest() quota.Seq { return quota.Seq(t.requests.Add(1)) }

func (t *table) find(n quota.LimitName) *limitEntry {
	if m := t.entries.Load(); m != nil {
		if s := (*m)[n]; s != nil {
			return s
		}
	}
	return t.inline.find(n)
}

// resolve returns the limit entry for a name, in the order of quota.Limits.Resolve, and the key that it counts.
func (t *table) resolve(n quota.LimitName, key string) (*limitEntry, string) {
	m := t.entries.Load()
	if m == nil {
		m = &noEntries
	}
	if s := (*m)[n]; s != nil {
		return s, key
	}
	if n.IsInline() {
		return t.inline.findOrAdd(n, nobody), key
	}
	if s := (*m)[quota.LimitName{Namespace: n.Namespace, Limit: quota.Template}]; s != nil {
		return s, n.Limit + "/" + key
	}
	if s := (*m)[quota.LimitName{Namespace: n.Namespace, Limit: quota.Default}]; s != nil {
		return s, key
	}
	return (*m)[quota.Global], key
}

// setLimits replaces the limits and returns the limit entries that ended.
func (t *table) setLimits(limits *quota.Limits) (ended []*limitEntry) {
	next := map[quota.LimitName]*limitEntry{}
	rules := map[quota.LimitName]*rule{}
	limits.Meters(func(l *quota.Limit) {
		s := t.find(l.LimitName)
		if s == nil {
			s = newLimitEntry(l.LimitName)
		}
		next[l.LimitName], rules[l.LimitName] = s, &rule{limit: l}
	})
	for name, r := range rules {
		for _, c := range limits.Charges(name) {
			r.charges = append(r.charges, charge{entry: next[c.Limit.LimitName], up: c.Up, floor: c.Floor})
		}
		r.simple = len(r.charges) == 1 && plain(r.limit)
		next[name].rule.Store(r)
		next[name].fair.Store(limits.Share(name, t.maxKeys))
	}
	if old := t.entries.Load(); old != nil {
		for n, s := range *old {
			if next[n] == nil {
				s.gone.Store(true)
				ended = append(ended, s)
			}
		}
	}
	t.inline.fair.Store(limits.Share(quota.InlineLimits, t.maxKeys))
	t.entries.Store(&next)
	return ended
}

// hasRoom reports whether a limit may have one more key, with which the table has size keys.
func (t *table) hasRoom(s *limitEntry, size int64) bool {
	return quota.HasRoom(size-1, t.maxKeys, s.all.Load()-1, s.fair.Load())
}

// usesItsShare reports whether a limit has about its share of the table, or more: it then drops keys while the table
// is nearly full. While it is, there is such a limit.
func (s *limitEntry) usesItsShare() bool {
	fair := s.fair.Load()
	return s.all.Load() > fair-fair/8
}

// overflowKey names the bucket of a limit that counts all keys without room.
const overflowKey = "@overflow"

// bucketOrOverflow returns the bucket of a key, or the one that keys without room share. It returns nil for keys
// beyond the max_keys of a hard limit, or of any limit if they need a bucket of their own, and for concurrency
// limits, whose tokens are released by key.
func (t *table) bucketOrOverflow(s *limitEntry, key string, needs bool) *bucket {
	b := t.bucket(s, key)
	if b != nil {
		return b
	}
	l := s.rule.Load().limit
	full := l.MaxKeys > 0 && s.size.Load() >= l.MaxKeys
	if l.Kind == quota.Concurrency || full && (needs || l.Ceiling == quota.Hard) {
		return nil
	}
	return t.bucket(s, overflowKey)
}

// plain reports whether held tokens decide alone, at any time.
func plain(l *quota.Limit) bool {
	return l.Kind == quota.TokenBucket && l.Class == quota.Counted && l.Decide != quota.AtLeader && l.Enforcement != quota.Off &&
		l.MaxCost == 0
}

// bucket returns the bucket of a key, and makes it if there is room; otherwise nil.
func (t *table) bucket(s *limitEntry, key string) *bucket {
	if b := t.lookup(s, key); b != nil {
		return b
	}
	l := s.rule.Load().limit
	size, own := t.takePlace(s, key)
	if !t.hasRoom(s, size) || l.MaxKeys > 0 && own > l.MaxKeys {
		t.givePlace(s, key)
		return nil
	}
	b, loaded := s.keys.LoadOrStore(t.newBucket(s, key), &t.compact)
	if loaded {
		t.givePlace(s, key)
		return b
	}
	b.recheckOverride(t.overrides)
	if t.created != nil {
		t.created(quota.Key{LimitName: s.name, Key: b.key})
	}
	return b
}

// newBucket returns a new bucket, which no other goroutine knows yet.
func (t *table) newBucket(s *limitEntry, key string) *bucket {
	key = strings.Clone(key) // the caller's string may share a large buffer
	b := &bucket{entry: s, key: key, rng: shard.Of(quota.Key{LimitName: s.name, Key: key}, t.ranges), state: newState()}
	b.relimit(t.overrides)
	return b
}

// lookup returns the bucket of a key, and restores it if it is compact; nil if the key is unknown.
func (t *table) lookup(s *limitEntry, key string) *bucket {
	if b := s.keys.Load(key); b != nil || t.compact.size.Load() == 0 {
		return b
	}
	if !t.compact.has(s.keys.hash(key), s, key) {
		return s.keys.Load(key) // found if it has just been restored
	}
	b := s.keys.Restore(t.newBucket(s, key), &t.compact)
	if b != nil {
		b.recheckOverride(t.overrides)
	}
	return b
}

// recheckOverride applies an override that was set after newBucket read the overrides, and before the table had the
// bucket.
func (b *bucket) recheckOverride(all quota.Overrides) {
	b.lock()
	b.relimit(all)
	b.mu.Unlock()
}

// takePlace takes a place for a key, and returns the number of keys of the table and of the limit entry with it. The
// shared bucket takes no place.
func (t *table) takePlace(s *limitEntry, key string) (size, own int64) {
	if key == overflowKey {
		return 0, 0
	}
	size, own = t.size.Add(1), s.size.Add(1)
	if s.all != &s.size {
		s.all.Add(1)
	}
	return size, own
}

// givePlace gives back the place of a key.
func (t *table) givePlace(s *limitEntry, key string) {
	if key == overflowKey {
		return
	}
	t.size.Add(-1)
	s.size.Add(-1)
	if s.all != &s.size {
		s.all.Add(-1)
	}
}

// drop removes a bucket that is marked dead.
func (t *table) drop(b *bucket) {
	if b.entry.keys.Delete(b) {
		t.givePlace(b.entry, b.key)
		if t.removed != nil {
			t.removed(quota.Key{LimitName: b.entry.name, Key: b.key})
		}
	}
}
