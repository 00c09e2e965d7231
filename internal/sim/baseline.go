package sim

import (
	"fmt"

	"github.com/quorate/quorate/internal/quota"
)

// Algorithms returns all algorithms, the real one first.
func Algorithms() []Algorithm {
	return []Algorithm{Quorate, CountSync, CountSyncDebt, EqualShares, DropRatio}
}

// Fits says why the algorithm cannot play a limit; nil if it can. All but [Quorate]
// only count what passes: they know nothing of what is in flight, and tell nobody to
// wait.
func (a Algorithm) Fits(l *quota.Limit) error {
	switch {
	case a == "" || a == Quorate:
		return nil
	case l.Kind == quota.Concurrency:
		return fmt.Errorf("%s, which counts what passes, not what is in flight; only %s can play a limit with in_flight", a, Quorate)
	case l.MaxDebt > 0:
		return fmt.Errorf("%s, which tells nobody to wait; only %s can play a limit with max_debt", a, Quorate)
	}
	return nil
}

// newRival returns who decides in place of the real code; nil for Quorate.
func newRival(r *run) rival {
	switch r.Algorithm {
	case CountSync, CountSyncDebt:
		return &countSync{r: r, debt: r.Algorithm == CountSyncDebt}
	case EqualShares:
		return &equalShares{r: r, share: shareOf(&r.Limit, r.Nodes)}
	case DropRatio:
		return newDropRatio(r)
	}
	return nil
}

// rivalSays is a rival's decision: it says no more than yes or no.
func rivalSays(ok bool) quota.Decision {
	if ok {
		return quota.Decision{Allowed: true, Why: quota.WhyLocal}
	}
	return quota.Decision{Why: quota.WhyOverLimit}
}

// central returns a limiter like the ideal's, for a limit that need not be the
// scenario's.
func (r *run) central(l *quota.Limit) ideal { return newIdeal(l, l.Tiers(), r.now) }

// everySync calls f for each living node once per sync interval, for all at the
// same moments, as timers do that follow the wall clock. (Of count-sync it is
// the worst: copies that are corrected at different moments admit less.)
func (r *run) everySync(f func(*node)) {
	r.after(r.Sync, func() {
		for _, n := range r.nodes {
			if !n.dead && !n.paused {
				f(n)
			}
		}
		r.everySync(f)
	})
}

// What a message of a rival takes on the wire: what every message has, and each
// key beside its text.
const (
	carryHead = 16
	carryKey  = 10
)

// carry passes a message from one node to another, who may have died meanwhile;
// what a node tells itself needs no network. It has a number for each of the keys;
// Result.Bytes is an estimate.
func (r *run) carry(from, to *node, keys []string, f func()) {
	if from == to {
		f()
		return
	}
	r.res.Reports++
	r.res.Bytes += carryHead
	for _, k := range keys {
		r.res.Bytes += carryKey + int64(len(k))
	}
	r.send(from, to, f)
}

// tables are what every node has of each key. A node's end with its process.
type tables[T any] struct {
	of    map[*node]*table[T]
	fresh func() T
}

func (t *tables[T]) on(n *node) *table[T] {
	v := t.of[n]
	if v == nil || v.life != n.life {
		made := newTable(t.fresh)
		made.life = n.life
		v = &made
		t.of[n] = v
	}
	return v
}

func newTables[T any](fresh func() T) tables[T] { return tables[T]{map[*node]*table[T]{}, fresh} }

// table is what a node, or an aggregator, has of each key. Keys come in the
// order in which they were first seen, so that a run repeats.
type table[T any] struct {
	life  int32 // of the node
	byKey map[string]*T
	keys  []string
	fresh func() T
}

func newTable[T any](fresh func() T) table[T] {
	return table[T]{byKey: map[string]*T{}, fresh: fresh}
}

func (t *table[T]) of(key string) *T {
	v, ok := t.byKey[key]
	if !ok {
		n := t.fresh()
		v = &n
		t.byKey[key] = v
		t.keys = append(t.keys, key)
	}
	return v
}

func (t *table[T]) clear() {
	clear(t.byKey)
	t.keys = nil
}
