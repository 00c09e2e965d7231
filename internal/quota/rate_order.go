package quota

import (
	"cmp"
	"container/heap"
	"slices"
)

// RateOrder is the order in which keys are ranked. Its values are those of quorate.v1.RateOrder.
type RateOrder int32

// The orders, highest first, except ByRemaining: lowest first.
const (
	ByDemand      RateOrder = iota + 1 // attempted tokens per second, averaged over a few seconds
	ByRate                             // admitted tokens per second
	ByRefusalRate                      // refused tokens per second
	ByUtilisation                      // demand divided by the refill rate
	ByAttempted                        // tokens since the leader first saw the key
	ByAdmitted
	ByRefused
	ByOverAdmitted
	ByNeedless
	ByRemaining
)

// value returns the number to rank by, highest first.
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

// Compare returns a negative number if x ranks before y. Equal keys are ordered by name. ByNeedless
// breaks ties by the upper bound, because the lower one is often 0.
func (o RateOrder) Compare(x, y *KeyRate) int {
	c := cmp.Compare(o.value(y), o.value(x))
	if o == ByNeedless {
		c = cmp.Or(c, cmp.Compare(y.NeedlessAtMost, x.NeedlessAtMost))
	}
	return cmp.Or(c, x.Key.Compare(y.Key))
}

// TopRates keeps the first Most keys in an order, and memory for no others. It is not safe for
// concurrent use.
type TopRates struct {
	Order RateOrder
	Most  int
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

// Take returns the keys in order and resets t.
func (t *TopRates) Take() []KeyRate {
	out := t.keys
	t.keys = nil
	slices.SortFunc(out, func(x, y KeyRate) int { return t.Order.Compare(&x, &y) })
	return out
}

// lastFirst is a heap whose root is the lowest-ranked key, the next to be replaced.
type lastFirst TopRates

func (t *lastFirst) Len() int           { return len(t.keys) }
func (t *lastFirst) Less(i, j int) bool { return t.Order.Compare(&t.keys[i], &t.keys[j]) > 0 }
func (t *lastFirst) Swap(i, j int)      { t.keys[i], t.keys[j] = t.keys[j], t.keys[i] }
func (t *lastFirst) Push(k any)         { t.keys = append(t.keys, k.(KeyRate)) }

func (t *lastFirst) Pop() any {
	last := len(t.keys) - 1
	k := t.keys[last]
	t.keys = t.keys[:last]
	return k
}
