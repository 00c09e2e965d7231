package aggregator

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func keyed(key string) *bucket { return &bucket{key: key, state: newState()} }

var none compactStore // with no compact key

// TestKeys: the table finds exactly the keys that it contains, while shards grow and shrink. Some keys differ only
// beyond the bytes in their hot entry.
func TestKeys(t *testing.T) {
	k := newKeys()
	long := strings.Repeat("x", shortKey)
	name := func(i int) string { return []string{"", long, long[1:]}[i%3] + strconv.Itoa(i) }
	const n = 3000
	all := map[string]*bucket{}
	for i := range n {
		b := keyed(name(i))
		if got, loaded := k.LoadOrStore(b, &none); got != b || loaded {
			t.Fatalf("%q: there was one", b.key)
		}
		if got, loaded := k.LoadOrStore(keyed(b.key), &none); got != b || !loaded {
			t.Fatalf("%q is not found by who would put it in", b.key)
		}
		b.hot().held.Store(int64(i))
		all[b.key] = b
	}
	check := func() {
		t.Helper()
		seen := map[string]bool{}
		k.Range(func(b *bucket) { seen[b.key] = true })
		for i := range n {
			key := name(i)
			l, b := k.find(key)
			if b != all[key] || seen[key] != (b != nil) {
				t.Fatalf("%q: %v", key, b)
			}
			if b != nil && (b.hot() != l || l.held.Load() != int64(i)) {
				t.Fatalf("%q holds %d in line %p, its bucket has %p", key, l.held.Load(), l, b.hot())
			}
		}
	}
	check()
	for i := range n {
		if i%50 == 0 {
			continue
		}
		b := all[name(i)]
		if !k.Delete(b) || k.Delete(b) {
			t.Fatalf("%q: not removed, or twice", b.key)
		}
		delete(all, b.key)
	}
	check()
	lines := 0
	for i := range k.shards {
		if x := k.shards[i].layout.Load(); x != nil {
			lines += len(x.lines)
		}
	}
	if lines > 64*len(all) {
		t.Errorf("%d lines for %d keys", lines, len(all))
	}
}

// TestLinesMove: tokens that are taken while keys are added and removed are taken once, and none is lost.
func TestLinesMove(t *testing.T) {
	const n, each, rounds = 64, 1000, 20
	k := newKeys()
	for i := range n {
		b, _ := k.LoadOrStore(keyed(fmt.Sprint("hot", i)), &none)
		b.hot().held.Store(each)
	}
	var taken atomic.Int64
	var urgent stack
	var takers, others sync.WaitGroup
	for range 4 {
		takers.Go(func() {
			for turn := range each {
				l, b := k.find(fmt.Sprint("hot", turn%n))
				if l.take(1, b, &urgent) || locked(b, &urgent) {
					taken.Add(1)
				}
			}
		})
	}
	for o := range 2 {
		others.Go(func() {
			for r := range rounds {
				for i := range 200 {
					k.LoadOrStore(keyed(fmt.Sprint("cold", o, r, i)), &none)
				}
				for i := range 200 {
					k.Delete(k.Load(fmt.Sprint("cold", o, r, i)))
				}
			}
		})
	}
	takers.Wait()
	others.Wait()
	left := int64(0)
	k.Range(func(b *bucket) { left += b.hot().held.Load() })
	if taken.Load() != 4*each || left != n*each-taken.Load() {
		t.Errorf("%d taken of %d, %d left: want %d", taken.Load(), n*each, left, n*each-taken.Load())
	}
}

// locked takes a token as decide does when held is not enough.
func locked(b *bucket, urgent *stack) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take(1, urgent)
}

// TestLine: a decision out of held tokens touches one cache line.
func TestLine(t *testing.T) {
	if size := reflect.TypeFor[hotEntry]().Size(); size != 64 {
		t.Errorf("a line has %d bytes; want 64", size)
	}
}
