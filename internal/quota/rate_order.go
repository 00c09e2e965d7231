package quota

import (
	"cmp"
	"container/heap"
	"slices"
)

// RateOrder is by what keys are ranked. The values are those of quorate.v1.RateOrder.
type RateOrder int32

// The orders: highest first, but for Remaining, where the least is first.
const (
	ByDemand      RateOrder = iota + 1 // attempted tokens per second, over the last few
	ByRate                             // admitted tokens per second
	ByRefusalRate                      // refused tokens per second
	ByUtilisation                      // demand as a part of what the limit refills
	ByAttempted                        // tokens since the leader first saw the key
	ByAdmitted
	ByRefused
	ByOverAdmitted
	ByNeedless
	ByRemaining
)

// value is what keys are ranked by, the highest first.
func (o RateOrder) value(k *KeyRate) float64 {
	switch o {
	case ByRate:
		return k.Rate
	case ByRefusalRate:
		return k.Demand - k.Rate
	case ByUtilisation:
		return k.Utilisation
	case ByAttempted:
		return float64(k.Attempted)
	case ByAdmitted:
		return float64(k.Admitted)
	case ByRefused:
		return float64(k.Refused)
	case ByOverAdmitted:
		return float64(k.OverAdmitted)
	case ByNeedless:
		return float64(k.Needless)
	case ByRemaining:
		return -float64(k.Remaining)
	}
	return k.Demand
}

// Compare is negative if x comes before y; equals are in the order of their keys. Of needless refusals the upper
// bound breaks ties: the lower one is often 0.
func (o RateOrder) Compare(x, y *KeyRate) int {
	c := cmp.Compare(o.value(y), o.value(x))
	if o == ByNeedless {
		c = cmp.Or(c, cmp.Compare(y.NeedlessAtMost, x.NeedlessAtMost))
	}
	return cmp.Or(c, x.Key.Compare(y.Key))
}

// TopRates keeps the first few of many keys in an order, in memory for these alone.
// Not safe for concurrent use.
type TopRates struct {
	Order RateOrder
	Most  int // how many
	keys  []KeyRate
}

// Add offers a key.
func (t *TopRates) Add(k *KeyRate) {
	switch {
	case len(t.keys) < t.Most:
		heap.Push((*lastFirst)(t), *k)
	case t.Most > 0 && t.Order.Compare(k, &t.keys[0]) < 0:
		t.keys[0] = *k
		heap.Fix((*lastFirst)(t), 0)
	}
}

// Take returns them, the first first, and forgets them.
func (t *TopRates) Take() []KeyRate {
	out := t.keys
	t.keys = nil
	slices.SortFunc(out, func(x, y KeyRate) int { return t.Order.Compare(&x, &y) })
	return out
}

// lastFirst is a heap whose root is the one that gives way to a better one.
type lastFirst TopRates

func (t *lastFirst) Len() int           { return len(t.keys) }
func (t *lastFirst) Less(i, j int) bool { return t.Order.Compare(&t.keys[i], &t.keys[j]) > 0 }
func (t *lastFirst) Swap(i, j int)      { t.keys[i], t.keys[j] = t.keys[j], t.keys[i] }
func (t *lastFirst) Push(k any)         { t.keys = append(t.keys, k.(KeyRate)) }

// Pop is there for heap.Interface.
func (t *lastFirst) Pop() any {
	last := len(t.keys) - 1
	k := t.keys[last]
	t.keys = t.keys[:last]
	return k
}
