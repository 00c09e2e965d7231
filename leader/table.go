package leader

import (
	"hash/maphash"
	"iter"

	"github.com/quorate/quorate/internal/quota"
)

// table finds the buckets by their keys. A map by key would keep each key, of three strings, a second time.
type table struct {
	hash  func(quota.Key) uint64
	first map[uint64]*bucket // by hash; bucket.next is the next one with the same hash
	size  int
}

func newTable() table {
	seed := maphash.MakeSeed()
	return table{hash: func(k quota.Key) uint64 { return maphash.Comparable(seed, k) }, first: map[uint64]*bucket{}}
}

// find returns the bucket of a key, or nil.
func (t *table) find(k quota.Key) *bucket {
	for b := t.first[t.hash(k)]; b != nil; b = b.next {
		if b.name == k.Key && b.of == k.LimitName {
			return b
		}
	}
	return nil
}

// add adds a bucket whose key has none.
func (t *table) add(b *bucket) {
	h := t.hash(b.key())
	b.next, t.first[h] = t.first[h], b
	t.size++
}

// remove removes a bucket.
func (t *table) remove(b *bucket) {
	h := t.hash(b.key())
	t.size--
	if t.first[h] != b {
		at := t.first[h]
		for at.next != b {
			at = at.next
		}
		at.next = b.next
	} else if b.next != nil {
		t.first[h] = b.next
	} else {
		delete(t.first, h)
	}
	b.next = nil
}

// all returns the buckets in any order. The caller may remove the one that it has got.
func (t *table) all() iter.Seq[*bucket] {
	return func(yield func(*bucket) bool) {
		for _, b := range t.first {
			for b != nil {
				next := b.next
				if !yield(b) {
					return
				}
				b = next
			}
		}
	}
}
