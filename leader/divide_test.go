package leader

import (
	"math"
	"testing"
	"time"
)

func TestWaterLevel(t *testing.T) {
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
		var holders []holder
		n := 0
		for _, d := range tc.demands {
			holders = append(holders, holder{live: d})
			if d > 0 {
				n++
			}
		}
		got := waterLevel(holders, tc.avail, n)
		if got != tc.want {
			t.Errorf("%s: waterLevel(%v, %v) = %v, want %v", tc.name, tc.demands, tc.avail, got, tc.want)
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

func TestConfig(t *testing.T) {
	if c := (Config{Sync: 5 * time.Second}).WithDefaults(); c.Lease != 15*time.Second || c.Learn != 15*time.Second {
		t.Errorf("sync 5s: lease %v, learn %v; want 15s", c.Lease, c.Learn)
	}
}
