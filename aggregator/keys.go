package aggregator

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/internal/quota"
)

// keys is the table of a limit entry's keys. The data for a decision while tokens are held is one cache line, the hot
// entry, which is in the table itself: so it costs one access to memory, however many keys there are. Readers take no
// lock; writers lock one shard.
//
// A hot entry serves one key, once. When its bucket is removed, the entry stays behind, holding nothing, until the
// whole shard is rebuilt: code that still reads it finds nothing to spend. A rebuild moves held tokens to the new hot
// entry with the bucket locked; a reader of the old one finds nothing there, and locks the bucket.
type keys struct {
	seed   maphash.Seed
	shards [keyShards]keyShard
}

// keyShards is large enough that the rebuild of one shard delays few callers.
const keyShards = 32

type keyShard struct {
	layout atomic.Pointer[layout]
	mu     sync.Mutex // for writers
	live   int        // hot entries with a bucket
	used   int        // the same, plus those whose bucket was removed
}

// layout is a hash table with open addressing. The number of hot entries is a power of two, and some are free. They
// have no pointers, so that the garbage collector does not scan them.
type layout struct {
	lines   []hotEntry
	buckets []atomic.Pointer[bucket]
}

// hotEntry holds the fields of a key that the hot path reads and writes: one cache line.
type hotEntry struct {
	hash   atomic.Uint64 // of the key; or noKey, lostKey
	held   atomic.Int64  // Units that may be spent without asking; set back only under bucket.mu
	low    atomic.Int64  // the hot path requests more below this
	offset atomic.Int64  // last estimate less held; see bucket.publish
	kind   atomic.Uint32 // length of the key, and the bit special
	key    [shortKey]byte
}

const (
	noKey   = 0 // free, and never used
	lostKey = 1 // its bucket was removed
	hashed  = 2 // set in all other hashes

	shortKey = 28      // longer keys are compared in their bucket
	special  = 1 << 16 // an override changes the limit entry's limit

	leastLines = 4
)

func newKeys() *keys { return &keys{seed: maphash.MakeSeed()} }

func (k *keys) hash(key string) uint64 { return maphash.String(k.seed, key) | hashed }

func (k *keys) hashBytes(key []byte) uint64 { return maphash.Bytes(k.seed, key) | hashed }

func (k *keys) shard(hash uint64) *keyShard { return &k.shards[hash>>59] }

// Load returns the bucket of a key, or nil.
func (k *keys) Load(key string) *bucket {
	_, b := k.find(key)
	return b
}

// find returns the hot entry and the bucket of a key, or nil.
func (k *keys) find(key string) (*hotEntry, *bucket) {
	h := k.hash(key)
	if x := k.shard(h).layout.Load(); x != nil {
		if i, ok := x.find(h, key); ok {
			return &x.lines[i], x.buckets[i].Load()
		}
	}
	return nil, nil
}

// find returns the position of a key; or false, and the free position where it could be.
func (x *layout) find(hash uint64, key string) (int, bool) {
	mask := len(x.lines) - 1
	for i := int(hash >> 2); ; i++ {
		at := i & mask
		switch x.lines[at].hash.Load() {
		case hash:
			if x.is(at, key) {
				return at, true
			}
		case noKey:
			return at, false
		}
	}
}

// is reports whether a hot entry is that of a key.
func (x *layout) is(at int, key string) bool {
	l := &x.lines[at]
	if int(l.kind.Load()&(special-1)) != len(key) {
		return false
	}
	if len(key) <= shortKey {
		return string(l.key[:len(key)]) == key
	}
	b := x.buckets[at].Load()
	return b != nil && b.key == key
}

// LoadOrStore returns the bucket of b's key if there is one. Otherwise it adds b, and restores its state if the key
// is compact; loaded is true if the key was known.
func (k *keys) LoadOrStore(b *bucket, store *compactStore) (there *bucket, loaded bool) {
	h := k.hash(b.key)
	s := k.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if there := s.layout.Load().get(h, b.key); there != nil {
		return there, true
	}
	loaded = store.take(h, b)
	if s.add(h, b); loaded {
		store.restored(h, b)
	}
	return b, loaded
}

// Restore returns the bucket of b's key: the existing one, or b if the key is compact; nil if the key is unknown.
func (k *keys) Restore(b *bucket, store *compactStore) *bucket {
	h := k.hash(b.key)
	s := k.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if there := s.layout.Load().get(h, b.key); there != nil {
		return there
	}
	if !store.take(h, b) {
		return nil
	}
	s.add(h, b)
	store.restored(h, b)
	return b
}

// Compact replaces the bucket of a closed key by a compact record. done means that the entry of the idle list is
// settled, later that the key is not at rest yet. If neither is set, there is no room.
func (k *keys) Compact(now quota.Time, e idleBucket, store *compactStore) (done, later bool) {
	h := k.hash(e.b.key)
	s := k.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if done, later = e.compactInto(store, h, now); done || later {
		return done, later
	}
	if !e.b.dead {
		return false, false
	}
	x := s.layout.Load()
	if i, ok := x.find(h, e.b.key); ok {
		s.markRemoved(x, i)
	}
	return true, false
}

// get returns the bucket of a key, or nil.
func (x *layout) get(hash uint64, key string) *bucket {
	if x == nil {
		return nil
	}
	if i, ok := x.find(hash, key); ok {
		return x.buckets[i].Load()
	}
	return nil
}

// add adds the bucket of a key that has none.
func (s *keyShard) add(hash uint64, b *bucket) {
	x := s.layout.Load()
	if x == nil || s.used+1 > len(x.lines)*3/4 {
		x = s.rebuild()
	}
	x.put(hash, b)
	s.live, s.used = s.live+1, s.used+1
}

// put gives a bucket a hot entry. The caller excludes other writers.
func (x *layout) put(hash uint64, b *bucket) {
	i, _ := x.find(hash, b.key)
	l := &x.lines[i]
	kind := uint32(len(b.key))
	if b.own.Load() != nil {
		kind |= special
	}
	l.kind.Store(kind)
	copy(l.key[:], b.key)
	if old := b.entryPtr.Load(); old != nil {
		l.low.Store(old.low.Load())
		l.offset.Store(old.offset.Load())
		l.held.Store(old.held.Swap(0))
	}
	b.entryPtr.Store(l)
	b.publish()
	x.buckets[i].Store(b)
	l.hash.Store(hash) // from here on, readers find it
}

// rebuild rebuilds the shard, with room for as many keys again, and without the removed ones.
func (s *keyShard) rebuild() *layout {
	size := leastLines
	for size*3/8 < s.live {
		size *= 2
	}
	x := &layout{make([]hotEntry, size), make([]atomic.Pointer[bucket], size)}
	if old := s.layout.Load(); old != nil {
		for i := range old.lines {
			if b := old.buckets[i].Load(); b != nil {
				b.mu.Lock()
				x.put(old.lines[i].hash.Load(), b)
				b.mu.Unlock()
			}
		}
	}
	s.used = s.live
	s.layout.Store(x)
	return x
}

// Delete removes a dead bucket, and reports whether it was there.
func (k *keys) Delete(b *bucket) bool {
	h := k.hash(b.key)
	s := k.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.layout.Load()
	if x == nil {
		return false
	}
	i, ok := x.find(h, b.key)
	if !ok || x.buckets[i].Load() != b {
		return false
	}
	s.markRemoved(x, i)
	return true
}

// markRemoved marks a hot entry as removed.
func (s *keyShard) markRemoved(x *layout, i int) {
	x.lines[i].hash.Store(lostKey)
	x.buckets[i].Store(nil)
	switch s.live--; {
	case s.live == 0:
		s.layout.Store(nil)
		s.used = 0
	case s.live < len(x.lines)/8:
		s.rebuild()
	}
}

// Range calls f with every bucket. It may miss buckets that are added or removed during the call.
func (k *keys) Range(f func(*bucket)) {
	for i := range k.shards {
		x := k.shards[i].layout.Load()
		if x == nil {
			continue
		}
		for at := range x.buckets {
			if b := x.buckets[at].Load(); b != nil {
				f(b)
			}
		}
	}
}
