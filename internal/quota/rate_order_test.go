package quota

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// TestTopRates: the kept keys are the first ones when all are sorted.
func TestTopRates(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for order := ByDemand; order <= ByRemaining; order++ {
		var all []KeyRate
		for i := range 300 {
			some := func() float64 { return float64(rng.IntN(20)) } // so that some are equal
			all = append(all, KeyRate{
				Key: Key{Key: strconv.Itoa(i)}, Rate: some(), Demand: some(), Utilisation: some(),
				Attempted: int64(some()), Admitted: int64(some()), Refused: int64(some()), Remaining: int64(some()),
				OverAdmitted: Units(some()), Needless: Units(some()), NeedlessAtMost: Units(some()),
			})
		}
		sorted := slices.Clone(all)
		slices.SortFunc(sorted, func(x, y KeyRate) int { return order.Compare(&x, &y) })
		for _, most := range []int{0, 1, 7, 299, 300, 500} {
			top := TopRates{Order: order, Most: most}
			for i := range all {
				top.Add(&all[i])
			}
			if got := top.Take(); !slices.Equal(got, sorted[:min(most, len(all))]) {
				t.Errorf("order %d, top %d: %v", order, most, got)
			}
		}
	}
}

func TestRateOrders(t *testing.T) {
	few := KeyRate{Key: Key{Key: "few"}, Rate: 5, Demand: 6, Remaining: 3}
	many := KeyRate{Key: Key{Key: "many"}, Rate: 7, Demand: 7, Remaining: 9}
	for order, first := range map[RateOrder]string{0: "many", ByDemand: "many", ByRate: "many", ByRefusalRate: "few", ByRemaining: "few", ByAttempted: "few"} {
		keys := []KeyRate{many, few}
		slices.SortFunc(keys, func(x, y KeyRate) int { return order.Compare(&x, &y) })
		if keys[0].Key.Key != first {
			t.Errorf("order %d: %s is first, want %s", order, keys[0].Key.Key, first)
		}
	}
}
