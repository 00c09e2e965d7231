package sim

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// stormy draws a scenario from a seed in which nodes die, return, pause and are partitioned, with
// clocks that drift, over one key or many.
func stormy(seed uint64) Scenario {
	rng := rand.New(rand.NewPCG(seed, 5))
	pick := func(v ...int64) int64 { return v[rng.IntN(len(v))] }
	ceiling := quota.Soft
	if rng.IntN(2) == 0 {
		ceiling = quota.Hard
	}
	rate := pick(1, 10, 100, 300)
	s := Scenario{
		Seed: seed, Nodes: int(pick(3, 3, 5, 10)), Duration: time.Duration(3+rng.IntN(6)) * time.Second,
		Limit: limit(rate, max(1, rate*pick(1, 10, 20)/10), ceiling),
		Delay: time.Duration(pick(0, 100, 1000, 5000)) * time.Microsecond, Jitter: time.Duration(pick(0, 0, 1, 10)) * time.Millisecond,
		Loss: float64(pick(0, 0, 5)) / 100, Repeat: float64(pick(0, 0, 5)) / 100, Reorder: float64(pick(0, 0, 5)) / 100,
		Drift: float64(pick(0, 0, 1, 10)) * 1e-4, Near: rng.IntN(2) == 0, Hop: time.Duration(pick(0, 20)) * time.Millisecond,
		Check: true,
	}
	if rng.IntN(4) == 0 {
		s.Keys = Keys{Count: 1000, Zipf: 1.1}
	}
	s.Loads = []Load{
		{Rate: float64(rate) * float64(pick(1, 3, 10))},
		{From: time.Second, Rate: float64(2 * rate), On: 300 * time.Millisecond, Off: 200 * time.Millisecond, Spread: Spread{Moving: 700 * time.Millisecond}, Clump: int(pick(1, 5))},
	}
	for range 1 + rng.IntN(4) {
		s.Faults = append(s.Faults, anyFault(rng, s))
	}
	return s
}

func anyFault(rng *rand.Rand, s Scenario) Fault {
	f := Fault{
		At:    time.Duration(rng.Int64N(int64(s.Duration))),
		Kind:  []FaultKind{Kill, Pause, Partition, Slow, Kill, Pause, Partition, Heal, Restart}[rng.IntN(9)],
		For:   time.Duration(rng.IntN(4)) * 600 * time.Millisecond,
		Delay: time.Duration(rng.IntN(20)) * time.Millisecond,
	}
	if f.Leader = rng.IntN(2) == 0; !f.Leader {
		f.Nodes = []int{1 + rng.IntN(s.Nodes)}
	}
	if f.Kind == Partition && rng.IntN(2) == 0 {
		f.Leader, f.Nodes = false, nil
		f.Groups = [][]int{{1 + rng.IntN(s.Nodes/2)}, {s.Nodes/2 + 1, s.Nodes}}
	}
	return f
}

// TestStormsRepeat checks that a scenario gives the same result each time, whatever fails in it,
// and that another seed gives another.
func TestStormsRepeat(t *testing.T) {
	long(t)
	t.Parallel()
	for seed := range uint64(20) {
		s := stormy(seed)
		a, b := Run(s), Run(s)
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s\n\tfirst %+v\n\tthen  %+v", describe(s), a, b)
		}
		s.Seed += 1000
		if c := Run(s); reflect.DeepEqual(a, c) {
			t.Errorf("%s\n\tseeds %d and %d give the same", describe(s), seed, s.Seed)
		}
	}
}

// TestStormsKeepBooks checks that in no storm a leader books a token twice, and that hard limits
// hold. A hard limit holds exactly while one leader serves. A lost leader may have booked for its
// own member what nobody else knows, up to a burst. (Of the first thousand seeds that happens in
// 411, half a burst, and 797, two tokens.)
func TestStormsKeepBooks(t *testing.T) {
	testspeed.Full(t)
	long(t)
	t.Parallel()
	seeds := uint64(200)
	if testing.Short() {
		seeds = 25
	}
	for seed := range seeds {
		s := stormy(seed)
		r := played(s, s.Duration)
		r.end()
		if len(r.res.Violations) > 0 {
			t.Errorf("%s\n\t%q", describe(s), r.res.Violations)
		}
		most := rounding + float64(s.Limit.Rate.Tokens)*(s.Jitter.Seconds()+s.Drift*s.Duration.Seconds())
		if len(r.terms) > 1 {
			most += float64(s.Limit.Burst)
		}
		if s.Limit.Ceiling == quota.Hard && r.res.Excess >= most {
			t.Errorf("%s\n\t%.2f tokens beyond the ceiling in %d terms", describe(s), r.res.Excess, len(r.terms))
		}
	}
}

func describe(s Scenario) string {
	return fmt.Sprintf("seed %d: %d nodes, %v b%d %v, %v, delay %v+%v, loss %v, repeat %v, reorder %v, drift %v, near %v, keys %+v, faults %+v",
		s.Seed, s.Nodes, s.Limit.Rate, s.Limit.Burst, s.Limit.Ceiling, s.Duration, s.Delay, s.Jitter, s.Loss, s.Repeat, s.Reorder, s.Drift, s.Near, s.Keys, s.Faults)
}

// TestRefusalIsNoDeath checks that refused connections to live nodes, again and again, do not
// release the nodes' tokens. The nodes go on spending their grants until their lease ends, so
// nobody else may get them.
func TestRefusalIsNoDeath(t *testing.T) {
	for seed := range uint64(10) {
		s := Scenario{
			Seed: seed, Nodes: 3, Duration: 12 * time.Second, Limit: limit(300, 100, quota.Hard), Delay: time.Millisecond, Skew: -1, Near: true, Check: true,
			Loads: []Load{{Rate: 1500}},
		}
		for i := range 3 {
			s.Faults = append(s.Faults, Fault{At: time.Duration(2+3*i) * time.Second, Kind: Refuse, Nodes: []int{1 + i, 1 + (i+1)%3}, For: time.Duration(1+i) * time.Second})
		}
		if r := Run(s); r.Excess > 0.01 || len(r.Violations) > 0 {
			t.Errorf("seed %d: %.1f tokens beyond a hard 300/s, burst 100; %v", seed, r.Excess, r.Violations)
		} else if r.Admitted < r.Ideal*8/10 {
			t.Errorf("seed %d: %v admitted, one bucket would have admitted %v", seed, r.Admitted, r.Ideal)
		}
	}
}
