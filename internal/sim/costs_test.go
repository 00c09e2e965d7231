package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	stated "github.com/quorate/quorate/internal/bound"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestMixedCosts plays, on one node without failures, requests of medium cost, then one for all
// that is left, then single tokens, from a bucket that never refills. It checks that the admissions
// stay within the bound stated for one node, also where a client decides. A request for more than
// the node holds must not leave the held tokens to be spent after it.
func TestMixedCosts(t *testing.T) {
	for _, clients := range []int{0, 1} {
		for _, left := range []int64{100, 310, 400, 520, 610, 700, 1000} {
			s := mixed(left)
			s.Clients = clients
			r := Run(s)
			c := stated.Cluster{Nodes: 1, Sync: s.Sync, Lease: 3 * time.Second}
			if most := stated.Most(&s.Limit, c); r.Excess > most {
				t.Errorf("%d clients, a request for the last %d tokens: %.1f beyond the burst of %d, at most %.1f", clients, left, r.Excess, s.Limit.Burst, most)
			}
			if r.Admitted < s.Limit.Burst-30 {
				t.Errorf("%d clients, a request for the last %d tokens: %d of %d admitted", clients, left, r.Admitted, s.Limit.Burst)
			}
		}
	}
}

// mixed is a scenario of one node: 30 tokens every 10 ms until left of 1000 remain, then left at
// once, then 2000 times one token.
func mixed(left int64) Scenario {
	l := quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}}
	l.SetFirst(quota.Tier{Rate: quota.Rate{Per: time.Second}, Burst: 1000})
	requests := func(yield func(Request) bool) {
		at, rest := 50*time.Millisecond, l.Burst
		next := func(cost int64, after time.Duration) bool {
			at += after
			return yield(Request{At: at, Key: "k", Node: 1, Cost: cost})
		}
		for ; rest > left; rest -= 30 {
			if !next(30, 10*time.Millisecond) {
				return
			}
		}
		if !next(rest, 10*time.Millisecond) {
			return
		}
		for range 2000 {
			if !next(1, 200*time.Microsecond) {
				return
			}
		}
	}
	return Scenario{
		Seed: 1, Nodes: 1, Sync: 100 * time.Millisecond, Limit: l, Hop: 20 * time.Millisecond, Near: true, Skew: -1, Requests: requests,
	}
}

// TestMixedCostsOfClients plays random requests, of one token to a whole burst, at the clients of
// one node without failures. It checks that the admissions stay within the bound stated for that
// many clients: one client must not overdraw what another was lent.
func TestMixedCostsOfClients(t *testing.T) {
	t.Parallel()
	seeds := uint64(60)
	if testspeed.IsFull() {
		seeds = 1000
	}
	worst := 0.0
	for seed := range seeds {
		s, line := mixedOfClients(seed)
		r := Run(s)
		most := stated.Most(&s.Limit, stated.Cluster{Nodes: 1, Clients: s.Clients, Delay: s.Delay, Sync: s.Sync, Lease: 3 * time.Second})
		if r.Excess > most || len(r.Violations) > 0 {
			t.Errorf("%s: %.1f beyond the burst of %d, at most %.1f; %v", line, r.Excess, s.Limit.Burst, most, r.Violations)
		}
		// The node must recall tokens from the clients, in parts, for a request that takes all that is left.
		if r.Admitted < s.Limit.Burst*9/10 {
			t.Errorf("%s: %d of %d admitted", line, r.Admitted, s.Limit.Burst)
		}
		worst = max(worst, r.Excess)
	}
	t.Logf("%d scenarios: at most %.1f beyond", seeds, worst)
}

func mixedOfClients(seed uint64) (Scenario, string) {
	rng := rand.New(rand.NewPCG(seed, 77))
	pick := func(v ...int64) int64 { return v[rng.IntN(len(v))] }
	rate, clients := pick(0, 0, 10, 100), int(pick(1, 2, 3, 5, 10))
	every, most := time.Duration(pick(1, 5, 10, 30))*time.Millisecond, pick(10, 50, 300, 1000)
	delay := time.Duration(pick(100, 500, 1000)) * time.Microsecond
	l := quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}}
	l.SetFirst(quota.Tier{Rate: quota.Rate{Tokens: rate, Per: time.Second}, Burst: 1000})
	requests := func(yield func(Request) bool) {
		rng, at := rand.New(rand.NewPCG(seed, 78)), 50*time.Millisecond
		for range 1500 {
			at += time.Duration(rng.ExpFloat64() * float64(every))
			cost := int64(1)
			if rng.IntN(3) == 0 {
				cost += rng.Int64N(most)
			}
			if !yield(Request{At: at, Key: "k", Node: 1, Cost: cost}) {
				return
			}
		}
	}
	return Scenario{
		Seed: seed, Nodes: 1, Clients: clients, Sync: 100 * time.Millisecond, Limit: l, Delay: delay, Hop: 20 * time.Millisecond,
		Near: true, Skew: -1, Check: true, Requests: requests,
	}, fmt.Sprintf("seed %d: %d clients, %d/s, a request each %v, a third of them of up to %d", seed, clients, rate, every, most)
}

// TestMixedCostsAreExact plays requests of one to eight tokens, some of which give tokens back, at a small hard limit whose
// nodes ask its leader for what they lack, while messages are lost, repeated and reordered, and nodes die, pause and are
// cut off. It checks that the limit is never exceeded, and that no node holds what the leader has admitted for others.
func TestMixedCostsAreExact(t *testing.T) {
	t.Parallel()
	seeds := uint64(300)
	if testspeed.IsFull() {
		seeds = 3000
	}
	asked := int64(0)
	for seed := range seeds {
		s := mixedUnderHard(seed)
		v := Judge(s)
		for _, b := range v.Broken {
			if b.Property == HardExact || b.Property == Invariants || b.Property == NoPanic {
				t.Errorf("seed %d: %s: %s", seed, b.Property, b.What)
			}
		}
		asked += v.Result.Asked
	}
	if asked < 50*int64(seeds) {
		t.Errorf("leaders were asked %d times in %d scenarios", asked, seeds)
	}
}

func mixedUnderHard(seed uint64) Scenario {
	rng := rand.New(rand.NewPCG(seed, 79))
	pick := func(v ...int64) int64 { return v[rng.IntN(len(v))] }
	part := func(v ...float64) float64 { return v[rng.IntN(len(v))] }
	ms := func(least, more int) time.Duration { return time.Duration(least+rng.IntN(more)) * time.Millisecond }
	s := Scenario{
		Seed: seed, Nodes: 2 + rng.IntN(5), Duration: ms(6000, 6000), Limit: limit(pick(0, 1, 5, 20, 100), pick(8, 10, 15, 20, 40, 100), quota.Hard),
		Sync: time.Duration(pick(50, 100, 250)) * time.Millisecond, Skew: -1, Delay: ms(1, 30), Near: rng.IntN(2) == 0, Check: true,
		Loss: part(0, 0, 0, .02, .1, .3), Repeat: part(0, 0, .05, .2), Reorder: part(0, 0, .1, .4), Election: ms(50, 1000),
		Hop: 20 * time.Millisecond, CommitDelay: ms(1, 200), Keys: Keys{Count: int(pick(1, 1, 2))},
	}
	for range 1 + rng.IntN(4) {
		s.Loads = append(s.Loads, Load{
			Rate: 1 + 60*rng.Float64(), Cost: pick(1, 2, 3, 5, 8), Clump: 1 + rng.IntN(6), On: ms(100, 2000), Off: ms(0, 2000),
			Refund: part(0, 0, .1, .5, 1),
		})
	}
	faults := rng.IntN(8)
	for i := range faults {
		f := Fault{At: time.Duration(i+1)*s.Duration/time.Duration(faults+2) + ms(0, 800), Kind: Kill, Nodes: []int{1 + rng.IntN(s.Nodes)}, For: ms(1, 2500)}
		switch rng.IntN(8) {
		case 0:
			f.Kind = Stop
		case 1:
			f.Kind = Pause
		case 2:
			f.Kind, f.For = Move, 0
		case 3:
			f.Kind = Partition
		case 4:
			f.Kind, f.Delay = Slow, ms(10, 150)
		case 5:
			f.Leader, f.Nodes = true, nil
		}
		s.Faults = append(s.Faults, f)
	}
	return s
}
