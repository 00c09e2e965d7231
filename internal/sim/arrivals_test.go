package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestLoads checks how many requests arrive at each node, and when.
func TestLoads(t *testing.T) {
	for _, tc := range []struct {
		name  string
		load  Load
		nodes []float64 // fraction of the requests at each node
		total float64
		when  func(time.Duration) bool // if set, all requests arrive at times for which it is true
	}{
		{"even", Load{Rate: 1000}, []float64{.25, .25, .25, .25}, 10_000, nil},
		{"for a while", Load{Rate: 1000, From: 2 * time.Second, To: 5 * time.Second}, []float64{.25, .25, .25, .25}, 3000, func(d time.Duration) bool { return d >= 2*time.Second && d < 5*time.Second }},
		{"skew", Load{Rate: 1000, Spread: Spread{Skew: .7}}, []float64{.7, .1, .1, .1}, 10_000, nil},
		{"some", Load{Rate: 1000, Spread: Spread{Nodes: []int{2, 4}}}, []float64{0, .5, 0, .5}, 10_000, nil},
		{"moving", Load{Rate: 1000, To: 8 * time.Second, Spread: Spread{Moving: 500 * time.Millisecond}}, []float64{.25, .25, .25, .25}, 8000, nil},
		{"on and off", Load{Rate: 1000, On: 200 * time.Millisecond, Off: 300 * time.Millisecond}, []float64{.25, .25, .25, .25}, 4000, func(d time.Duration) bool { return d%(500*time.Millisecond) < 200*time.Millisecond }},
		{"clumps", Load{Rate: 1000, Clump: 5, Cost: 2}, []float64{.25, .25, .25, .25}, 20_000, nil},
		{"none", Load{}, []float64{0, 0, 0, 0}, 0, nil},
	} {
		at := make([]float64, 4)
		wrong := 0
		res := Run(Scenario{
			Seed: 7, Nodes: 4, Duration: 10 * time.Second, Limit: limit(1, 1_000_000, quota.Soft), Algorithm: EqualShares, Loads: []Load{tc.load},
			Decided: func(d time.Duration, node int, _ string, _ quota.Decision, _ bool) {
				at[node-1]++
				if tc.when != nil && !tc.when(d) {
					wrong++
				}
			},
		})
		if float64(res.Attempted) < .9*tc.total || float64(res.Attempted) > 1.1*tc.total || wrong > 0 {
			t.Errorf("%s: %d tokens asked for, %d requests at a wrong time; want %.0f and 0", tc.name, res.Attempted, wrong, tc.total)
		}
		all := at[0] + at[1] + at[2] + at[3]
		for i, want := range tc.nodes {
			if got := at[i] / max(1, all); math.Abs(got-want) > .06 {
				t.Errorf("%s: node %d got %.2f of the requests, want %.2f", tc.name, i+1, got, want)
			}
		}
	}
}

// TestLoadsAreTheSame checks that the same requests arrive for every algorithm and on every
// network.
func TestLoadsAreTheSame(t *testing.T) {
	arrivals := func(a Algorithm, loss float64) (out []time.Duration) {
		Run(Scenario{
			Seed: 3, Nodes: 3, Duration: 2 * time.Second, Limit: limit(100, 100, quota.Soft), Delay: time.Millisecond, Loss: loss, Algorithm: a,
			Loads: []Load{{Rate: 200}, {Rate: 100, Clump: 3}},
			Decided: func(d time.Duration, node int, _ string, _ quota.Decision, _ bool) {
				out = append(out, d*10+time.Duration(node))
			},
		})
		return out
	}
	want := arrivals(Quorate, 0)
	if got := arrivals(EqualShares, 0); !slices.Equal(got, want) {
		t.Errorf("another algorithm sees %d requests, or others, than the %d", len(got), len(want))
	}
	if got := arrivals(Quorate, .2); !slices.Equal(got, want) {
		t.Errorf("with loss there are %d requests, or others, than the %d", len(got), len(want))
	}
}

// TestZipf compares the drawn keys with the weights k^-e.
func TestZipf(t *testing.T) {
	const n, draws = 50, 200_000
	for _, e := range []float64{0, .5, 1, 1.1, 2} {
		z, rng := newZipf(n, e), rand.New(rand.NewPCG(1, 1))
		got := make([]float64, n+1)
		for range draws {
			got[z.draw(rng)]++
		}
		sum := 0.0
		for k := 1; k <= n; k++ {
			sum += math.Pow(float64(k), -e)
		}
		for k := 1; k <= n; k++ {
			want := draws * math.Pow(float64(k), -e) / sum
			if math.Abs(got[k]-want) > 5*math.Sqrt(want)+1 {
				t.Errorf("exponent %v: %d was drawn %.0f times, want %.0f", e, k, got[k], want)
			}
		}
	}
}

// TestManyKeys checks that each key has its own limit, and that only keys in use take memory.
func TestManyKeys(t *testing.T) {
	res := map[string]int{}
	s := Scenario{
		Seed: 1, Nodes: 3, Duration: 5 * time.Second, Limit: limit(1, 10, quota.Soft), Delay: time.Millisecond,
		Keys: Keys{Count: 1_000_000, Zipf: 1.1}, Loads: []Load{{Rate: 2000}}, Check: true,
		Decided: func(_ time.Duration, _ int, key string, d quota.Decision, _ bool) {
			if d.Allowed {
				res[key]++
			}
		},
	}
	r := newRun(s)
	r.start()
	r.until(epoch.Add(s.Duration))
	r.end()
	if accounts := r.newest().ledger.Len(); len(r.keys) < 1000 || len(r.keys) > int(r.res.Attempted) || accounts > len(r.keys) {
		t.Errorf("%d tallies and %d accounts for %d requests", len(r.keys), accounts, r.res.Attempted)
	}
	if len(r.res.Violations) > 0 || r.res.Admitted == 0 {
		t.Errorf("%d admitted, violations %q", r.res.Admitted, r.res.Violations)
	}
	if got := res["1"]; got < 13 || got > 20 {
		t.Errorf("%d of the busiest key passed in 5s, want about 15", got)
	}
}

// TestManyKeysAreBounded checks that tallies of keys that are full again are dropped.
func TestManyKeysAreBounded(t *testing.T) {
	s := calm()
	s.Loads, s.Limit = nil, limit(1000, 1, quota.Soft)
	r := newRun(s)
	for i := range 4 * minTallies {
		r.now = epoch.Add(time.Duration(i) * time.Millisecond)
		r.count(&node{}, strconv.Itoa(i), 1, quota.Decision{Allowed: true}, nil)
	}
	if got := len(r.keys); got > minTallies+1 {
		t.Errorf("%d tallies are kept of keys that are full again, want at most %d", got, minTallies+1)
	}
}

// TestReplay checks that requests of a log arrive at their time and node and with their cost, and
// that the result says what a limit would have done.
func TestReplay(t *testing.T) {
	log := func(yield func(Request) bool) {
		for i := range 100 {
			if !yield(Request{At: time.Duration(i/10) * time.Minute, Key: strconv.Itoa(i % 2), Node: 1 + i%3, Cost: 2}) {
				return
			}
		}
	}
	type seen struct {
		at   time.Duration
		node int
		key  string
	}
	var got []seen
	res := Run(Scenario{
		Seed: 1, Nodes: 3, Limit: limit(1, 6, quota.Soft), Requests: log, Near: true, Hop: 20 * time.Millisecond,
		Decided: func(d time.Duration, node int, key string, _ quota.Decision, _ bool) {
			got = append(got, seen{d, node, key})
		},
	})
	if len(got) != 100 || res.Attempted != 200 || res.NodeSeconds != 3*9*60 {
		t.Errorf("%d requests, %d tokens, %v node-seconds; want 100, 200, 1620", len(got), res.Attempted, res.NodeSeconds)
	}
	if last := got[len(got)-1]; last.at < 9*time.Minute || last.at > 9*time.Minute+20*time.Millisecond {
		t.Errorf("the last request was decided at %v, want 9m", last.at)
	}
	if res.Ideal != 10*2*6 || res.Admitted < res.Ideal {
		t.Errorf("admitted %d, ideal %d; want at least 120 and 120", res.Admitted, res.Ideal)
	}
}

// TestSeries checks that the seconds of a series add up to the total, and so do the nodes.
func TestSeries(t *testing.T) {
	for _, d := range []time.Duration{10 * time.Second, 2*MaxSeries*time.Second - time.Second} {
		s := calm()
		s.Duration, s.Loads[0].Rate = d, 3000/d.Seconds()
		res := Run(s)
		var sum Second
		for _, x := range res.Series {
			sum.Attempted, sum.Admitted, sum.Ideal = sum.Attempted+x.Attempted, sum.Admitted+x.Admitted, sum.Ideal+x.Ideal
		}
		if sum != (Second{res.Attempted, res.Admitted, res.Ideal}) || len(res.Series) > MaxSeries || len(res.Series) < 10 {
			t.Errorf("%v: %d steps of %v sum up to %+v, want %d, %d, %d", d, len(res.Series), res.Each, sum, res.Attempted, res.Admitted, res.Ideal)
		}
		if got := res.PerNode[0] + res.PerNode[1] + res.PerNode[2]; got != res.Admitted {
			t.Errorf("%v: nodes admitted %d, all %d", d, got, res.Admitted)
		}
	}
}
