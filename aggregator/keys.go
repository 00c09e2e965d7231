package aggregator

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/internal/quota"
)

// keys is the table of one limit entry. What a decision needs of a key while it holds
// tokens is one cache line, which lies in the table itself: so it costs one access to
// memory, however many keys there are. Readers take no lock; writers lock one shard.
//
// A line is for one key, once: when its bucket goes it stays empty-handed, and is
// reclaimed with the whole shard. So code that still looks at it finds nothing to
// spend. When a shard is laid out again, what is held moves to the new line, with the
// bucket locked; a reader of the old line finds nothing there, and locks the bucket.
type keys struct {
	seed   maphash.Seed
	shards [keyShards]keyShard
}

// keyShards are many enough that nobody waits long while one of them is laid out again.
const keyShards = 32

type keyShard struct {
	layout atomic.Pointer[layout]
	mu     sync.Mutex // of those who write
	live   int        // lines with a bucket
	used   int        // and those whose bucket is gone
}

// layout is a table with open addressing. The number of lines is a power of two, and
// some are empty. Lines have no pointers, so that the garbage collector does not look
// at them.
type layout struct {
	lines   []hotEntry
	buckets []atomic.Pointer[bucket]
}

// hotEntry is what the hot path reads and writes of a key: one cache line.
type hotEntry struct {
	hash   atomic.Uint64 // of the key; noKey, lostKey
	held   atomic.Int64  // Units spendable without asking; set back only under bucket.mu
	low    atomic.Int64  // below this the hot path asks for more
	offset atomic.Int64  // what the last estimate is beyond held; see bucket.publish
	kind   atomic.Uint32 // length of the key, and whether it is special
	key    [shortKey]byte
}

const (
	noKey   = 0 // nor has there been one
	lostKey = 1
	hashed  = 2 // in all others

	shortKey = 28      // longer ones are compared in their bucket
	special  = 1 << 16 // an override makes another limit of the limit entry's

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

// find returns the bucket of a key and its line, or nil.
func (k *keys) find(key string) (*hotEntry, *bucket) {
	h := k.hash(key)
	if x := k.shard(h).layout.Load(); x != nil {
		if i, ok := x.find(h, key); ok {
			return &x.lines[i], x.buckets[i].Load()
		}
	}
	return nil, nil
}

// find returns where a key is; or false, and the empty line where it could be.
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

// is reports whether a line is that of a key.
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

// LoadOrStore returns the bucket of b's key if there is one, or else takes b in: as what
// the key was, if it is compact.
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

// Restore returns the bucket of b's key: one that is there, or b if the key is compact; nil
// if it is not known.
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

// Compact lets a key that was closed then have no bucket any more, but what is remembered
// of it. done says that there is nothing to do any more, later that the key is not at
// rest yet. If neither is so there is no room.
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
		s.lose(x, i)
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

// add takes a bucket in whose key has none.
func (s *keyShard) add(hash uint64, b *bucket) {
	x := s.layout.Load()
	if x == nil || s.used+1 > len(x.lines)*3/4 {
		x = s.lay()
	}
	x.put(hash, b)
	s.live, s.used = s.live+1, s.used+1
}

// put gives a bucket a line. Nobody else puts anything at the same time.
func (x *layout) put(hash uint64, b *bucket) {
	i, _ := x.find(hash, b.key)
	l := &x.lines[i]
	kind := uint32(len(b.key))
	if b.own.Load() != nil {
		kind |= special
	}
	l.kind.Store(kind)
	copy(l.key[:], b.key)
	if old := b.line.Load(); old != nil {
		l.low.Store(old.low.Load())
		l.offset.Store(old.offset.Load())
		l.held.Store(old.held.Swap(0))
	}
	b.line.Store(l)
	b.publish()
	x.buckets[i].Store(b)
	l.hash.Store(hash) // from here on it is found
}

// lay lays the shard out again, with room for as many more, and without the lines that are gone.
func (s *keyShard) lay() *layout {
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

// Delete removes a bucket that is dead, and reports whether it was there.
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
	s.lose(x, i)
	return true
}

// lose leaves a line empty-handed.
func (s *keyShard) lose(x *layout, i int) {
	x.lines[i].hash.Store(lostKey)
	x.buckets[i].Store(nil)
	switch s.live--; {
	case s.live == 0:
		s.layout.Store(nil)
		s.used = 0
	case s.live < len(x.lines)/8:
		s.lay()
	}
}

// Range calls f with every bucket. Those that come or go during the call may be left out.
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
