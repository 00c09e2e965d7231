package sim

import (
	"fmt"

	"github.com/quorate/quorate/internal/quota"
)

// Algorithms returns all algorithms, the real one first.
func Algorithms() []Algorithm {
	return []Algorithm{Quorate, CountSync, CountSyncDebt, EqualShares, DropRatio}
}

// Fits returns an error if the algorithm cannot play a limit. All except [Quorate] only count what
// passes: they support neither concurrency limits nor waiting.
func (a Algorithm) Fits(l *quota.Limit) error {
	switch {
	case a == "" || a == Quorate:
		return nil
	case l.Kind == quota.Concurrency:
		return fmt.Errorf("%s, which counts what passes, not what is in flight; only %s can play a limit with in_flight", a, Quorate)
	case l.MaxDebt > 0:
		return fmt.Errorf("%s, which supports no waiting; only %s can play a limit with max_debt", a, Quorate)
	}
	return nil
}

// newBaseline returns the baseline that decides in place of the real code; nil for Quorate.
func newBaseline(r *run) baseline {
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

// yesOrNo returns a baseline's decision, which is only yes or no.
func yesOrNo(ok bool) quota.Decision {
	if ok {
		return quota.Decision{Allowed: true, Why: quota.WhyLocal}
	}
	return quota.Decision{Why: quota.WhyOverLimit}
}

// central returns a limiter like the ideal, for a limit other than the scenario's.
func (r *run) central(l *quota.Limit) Ideal { return NewIdeal(l, l.Tiers(), r.now) }

// everySync calls f for each living node once per sync interval, for all at the same moments, like
// timers that follow the wall clock. (For count-sync this is the worst case: copies that are
// corrected at different moments admit less.)
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

// Estimated bytes of a baseline's message, and of each of its keys in addition to the text.
const (
	carryHead = 16
	carryKey  = 10
)

// carry sends a baseline's message between two nodes; to itself a node needs no network. It
// contains a number for each key. Result.Bytes is an estimate.
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

// tables holds a table for each node. It ends with the node's process.
type tables[T any] struct {
	of    map[*node]*table[T]
	fresh func() T
}

func (t *tables[T]) on(n *node) *table[T] {
	v := t.of[n]
	if v == nil || v.inc != n.inc {
		made := newTable(t.fresh)
		made.inc = n.inc
		v = &made
		t.of[n] = v
	}
	return v
}

func newTables[T any](fresh func() T) tables[T] { return tables[T]{map[*node]*table[T]{}, fresh} }

// table holds a value for each key, of a node or an aggregator. Keys stay in the order of their
// first use, so that runs are reproducible.
type table[T any] struct {
	inc   quota.Incarnation // of the node
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
