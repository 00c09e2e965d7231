package aggregator

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// keys finds the buckets of one slot. Readers take no lock and follow two
// pointers: to a cell of the index, and to the bucket, whose first cache line has
// the key. Writers lock one of the shards.
//
// A cell that has been used is never empty again in the same index, so whoever
// probes past it finds what is behind it, whatever happens meanwhile.
type keys struct {
	shards [keyShards]keyShard
	seed   maphash.Seed
}

// keyShards are many enough that nobody waits long while one of them grows.
const keyShards = 16

type keyShard struct {
	index atomic.Pointer[index]
	mu    sync.Mutex // of those who write
	live  int        // cells with a bucket
	used  int        // and those whose bucket is gone
}

// index is a table with open addressing. Its length is a power of two, and it is
// never full.
type index struct{ cells []cell }

type cell struct {
	hash atomic.Uint64 // 0 is empty
	b    atomic.Pointer[bucket]
}

const leastCells = 8

func newKeys() *keys { return &keys{seed: maphash.MakeSeed()} }

// hash is that of a key, never 0.
func (k *keys) hash(key string) uint64 { return maphash.Comparable(k.seed, key) | 1 }

func (k *keys) shard(hash uint64) *keyShard { return &k.shards[hash>>60] }

// Load returns the bucket of a key; nil if there is none.
func (k *keys) Load(key string) *bucket {
	h := k.hash(key)
	if x := k.shard(h).index.Load(); x != nil {
		b, _ := x.find(h, key)
		return b
	}
	return nil
}

// find returns the bucket of a key, or nil and the cell where it may be put.
func (x *index) find(hash uint64, key string) (*bucket, *cell) {
	var free *cell
	mask := uint64(len(x.cells) - 1)
	for i := hash >> 1; ; i++ {
		c := &x.cells[i&mask]
		h := c.hash.Load()
		if h == hash {
			if b := c.b.Load(); b != nil && b.is(key) {
				return b, c
			}
		}
		if free == nil && c.b.Load() == nil {
			free = c
		}
		if h == 0 {
			return nil, free
		}
	}
}

// LoadOrStore returns the bucket of a key, or makes it with fresh, which runs with
// the shard locked.
func (k *keys) LoadOrStore(key string, fresh func() *bucket) (b *bucket, loaded bool) {
	h := k.hash(key)
	s := k.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.room()
	b, c := x.find(h, key)
	if b != nil {
		return b, true
	}
	b = fresh()
	if c.hash.Load() == 0 {
		s.used++
	}
	s.live++
	c.hash.Store(h) // first: who sees it without a bucket goes on looking
	c.b.Store(b)
	return b, false
}

// room returns an index with an empty cell to spare.
func (s *keyShard) room() *index {
	x := s.index.Load()
	if x != nil && s.used+1 <= len(x.cells)*3/4 {
		return x
	}
	size := leastCells
	for s.live+1 > size/2 {
		size *= 2
	}
	next := &index{cells: make([]cell, size)}
	if x != nil {
		next.fill(x)
	}
	s.used = s.live
	s.index.Store(next)
	return next
}

// fill takes over the buckets of another index. Nobody reads it yet.
func (x *index) fill(old *index) {
	mask := uint64(len(x.cells) - 1)
	for i := range old.cells {
		b, h := old.cells[i].b.Load(), old.cells[i].hash.Load()
		if b == nil {
			continue
		}
		at := h >> 1
		for x.cells[at&mask].b.Load() != nil {
			at++
		}
		c := &x.cells[at&mask]
		c.hash.Store(h)
		c.b.Store(b)
	}
}

// Delete removes a bucket, and reports whether it was there.
func (k *keys) Delete(b *bucket) bool {
	h := k.hash(b.key)
	s := k.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.index.Load()
	if x == nil {
		return false
	}
	there, c := x.find(h, b.key)
	if there != b {
		return false
	}
	c.b.Store(nil)
	if s.live--; s.live == 0 {
		s.index.Store(nil)
		s.used = 0
	}
	return true
}

// Range calls f with every bucket. Those that come or go meanwhile may be left out.
func (k *keys) Range(f func(*bucket)) {
	for i := range k.shards {
		x := k.shards[i].index.Load()
		if x == nil {
			continue
		}
		for c := range x.cells {
			if b := x.cells[c].b.Load(); b != nil {
				f(b)
			}
		}
	}
}
