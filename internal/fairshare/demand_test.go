package fairshare

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestLevel checks the properties of a max-min fair division of random demands: the shares add up to the available
// amount, and claimants that get less than their demand get the level.
func TestLevel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		demands := make([]float64, rng.IntN(9))
		sum := 0.0
		for i := range demands {
			demands[i] = float64(rng.IntN(50))
			sum += demands[i]
		}
		avail := float64(rng.IntN(200))
		level := Level(len(demands), func(i int) float64 { return demands[i] }, avail)
		if sum <= avail != math.IsInf(level, 1) {
			t.Fatalf("%v of %v: level %v", demands, avail, level)
		}
		got := 0.0
		for _, d := range demands {
			got += min(d, level)
		}
		if want := min(sum, avail); math.Abs(got-want) > 1e-9 {
			t.Fatalf("%v of %v: level %v gives %v; want %v", demands, avail, level, got, want)
		}
	}
}

func TestFollow(t *testing.T) {
	for _, c := range []struct {
		name                            string
		avg, count, size, seconds, fade float64
		least, most                     float64
	}{
		{"a surge counts at once, as far as it is proven", 0, 100, 1, 1, 0.9, 90, 100},
		{"a single event proves nothing", 0, 1, 1, 0.1, 0.9, 0, 1},
		{"silence counts at once", 100, 0, 1, 1, 0.9, 0, 0},
		{"what chance does moves it a little", 100, 110, 1, 1, 0.9, 100.5, 101.5},
		{"large events are few", 0, 100, 100, 1, 0.9, 0, 10.5},
		{"the last trace of a demand goes", 0.4, 0, 1, 1, 0.9, 0, 0},
	} {
		if got := Follow(c.avg, c.count, c.size, c.seconds, c.fade); got < c.least || got > c.most {
			t.Errorf("%s: %v; want %v to %v", c.name, got, c.least, c.most)
		}
	}
}

func TestLevelOf(t *testing.T) {
	inf := math.Inf(1)
	for _, tc := range []struct {
		name    string
		demands []float64
		avail   float64
		want    float64
	}{
		{"nobody asks", nil, 10, inf},
		{"zero demand does not count", []float64{0, 0}, 10, inf},
		{"enough for all", []float64{1, 2, 3}, 10, inf},
		{"exactly enough", []float64{5, 5}, 10, inf},
		{"shared equally", []float64{50, 50}, 10, 5},
		{"a flooder gets what is left", []float64{2, 1000}, 10, 8},
		{"order does not matter", []float64{1000, 2}, 10, 8},
		{"two rounds", []float64{1, 4, 100, 100}, 15, 5},
		{"three rounds", []float64{1, 3, 5, 100}, 14, 5},
		{"nothing to share", []float64{1, 2}, 0, 0},
		{"silent ones take no part", []float64{0, 9, 9}, 10, 5},
	} {
		got := Level(len(tc.demands), func(i int) float64 { return tc.demands[i] }, tc.avail)
		if got != tc.want {
			t.Errorf("%s: Level(%v, %v) = %v, want %v", tc.name, tc.demands, tc.avail, got, tc.want)
		}
		sum := 0.0
		for _, d := range tc.demands {
			sum += min(d, got)
		}
		if sum > tc.avail+1e-9 {
			t.Errorf("%s: hands out %v of %v", tc.name, sum, tc.avail)
		}
	}
}

func TestQuiet(t *testing.T) {
	for _, test := range []struct {
		demand, avail, burst float64
		want                 int
	}{
		{0, 100, 1000, 1},     // nothing is known
		{51, 100, 1000, 1},    // contended
		{50, 100, 100, 1},     // 5 tokens last for one interval
		{50, 100, 1000, 10},   // 50 tokens last for ten
		{10, 100, 100, 5},     // 5 tokens last for five
		{1e-9, 100, 1000, 10}, // at most ten
	} {
		if got := Quiet(test.demand, test.avail, test.burst, 100*time.Millisecond); got != test.want {
			t.Errorf("%v of %v, burst %v: %d intervals; want %d", test.demand, test.avail, test.burst, got, test.want)
		}
	}
}
