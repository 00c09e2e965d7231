package leader

import (
	"iter"

	"github.com/quorate/quorate/internal/quota"
)

// table finds the buckets by their keys. A map by the whole key would store its limit's name again for each bucket.
type table struct {
	of   map[quota.LimitName]map[string]*bucket
	size int
}

func newTable() table { return table{of: map[quota.LimitName]map[string]*bucket{}} }

// find returns the bucket of a key, or nil.
func (t *table) find(k quota.Key) *bucket { return t.of[k.LimitName][k.Key] }

// add adds a bucket whose key has none.
func (t *table) add(b *bucket) {
	keys := t.of[b.of]
	if keys == nil {
		keys = map[string]*bucket{}
		t.of[b.of] = keys
	}
	keys[b.name] = b
	t.size++
}

// remove removes a bucket.
func (t *table) remove(b *bucket) {
	keys := t.of[b.of]
	if delete(keys, b.name); len(keys) == 0 {
		delete(t.of, b.of)
	}
	t.size--
}

// all returns the buckets in any order. The caller may remove the one that it has got.
func (t *table) all() iter.Seq[*bucket] {
	return func(yield func(*bucket) bool) {
		for _, keys := range t.of {
			for _, b := range keys {
				if !yield(b) {
					return
				}
			}
		}
	}
}
