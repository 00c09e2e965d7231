package sim

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// sparse yields bursts of requests for a few keys, with nothing in between for up to hours.
func sparse(seed uint64) iter.Seq[Request] {
	rng := rand.New(rand.NewPCG(seed, 9))
	gaps := []time.Duration{3 * time.Second, 9 * time.Second, 12 * time.Second, time.Minute, 10 * time.Minute, 3 * time.Hour}
	var all []Request
	at := time.Duration(0)
	for range 60 {
		for range 1 + rng.IntN(30) {
			all = append(all, Request{At: at, Key: fmt.Sprint("k", rng.IntN(4)), Node: 1 + rng.IntN(3), Cost: 1 + rng.Int64N(2)})
			at += time.Duration(rng.Int64N(int64(50 * time.Millisecond)))
		}
		at += time.Duration(rng.Int64N(int64(gaps[rng.IntN(len(gaps))])))
	}
	return slices.Values(all)
}

// TestSkip checks that skipping idle time leaves every decision the same.
func TestSkip(t *testing.T) {
	testspeed.Full(t)
	long(t)
	t.Parallel()
	slow, day, tiers := limit(10, 20, quota.Soft), limit(10, 20, quota.Hard), limit(5, 10, quota.Soft)
	slow.Rate.Per, day.Rate.Per = time.Hour, 24*time.Hour
	tiers.More = []quota.Tier{quota.Window(quota.FixedWindow, 30, time.Hour), quota.Window(quota.SlidingWindow, 60, 6*time.Hour)}
	for name, l := range map[string]quota.Limit{"bucket": limit(2, 5, quota.Soft), "slow": slow, "day": day, "tiers": tiers} {
		for seed := range seedsEach() {
			play := func(faults ...Fault) (Result, []string) {
				var all []string
				res := Run(Scenario{
					Seed: seed, Nodes: 3, Limit: l, Delay: time.Millisecond, Requests: sparse(seed), Skew: -1, Faults: faults,
					Decided: func(at time.Duration, node int, key string, d quota.Decision, _ bool) {
						all = append(all, fmt.Sprintf("%v: %s at %d: %v %v", at, key, node, d.Allowed, d.Why))
					},
				})
				return res, all
			}
			skipped, got := play()
			whole, want := play(Fault{At: 1e6 * time.Hour, Kind: Heal}) // never happens, and prevents skipping
			if len(got) == 0 || !slices.Equal(got, want) {
				t.Errorf("%s, seed %d: %d decisions, %d of them differ", name, seed, len(got), differ(t, got, want))
			}
			if skipped.Steps*2 > whole.Steps || skipped.Admitted == skipped.Attempted {
				t.Errorf("%s, seed %d: %d steps instead of %d; admitted %d of %d", name, seed, skipped.Steps, whole.Steps, skipped.Admitted, skipped.Attempted)
			}
		}
	}
}

func differ(t *testing.T, got, want []string) (n int) {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			if n++; n <= 3 {
				t.Logf("got %s, want %s", got[i], want[i])
			}
		}
	}
	return n
}

// TestStart checks that windows follow the time that clocks show.
func TestStart(t *testing.T) {
	l := limit(1, 1, quota.Hard)
	l.SetFirst(quota.Window(quota.FixedWindow, 1, time.Hour))
	for start, want := range map[string]int64{"2015-05-17T10:59:59.5Z": 2, "2015-05-17T10:30:00Z": 1} {
		at, err := time.Parse(time.RFC3339, start)
		if err != nil {
			t.Fatal(err)
		}
		reqs := []Request{{At: 10 * time.Millisecond, Key: "k", Node: 1, Cost: 1}, {At: time.Second, Key: "k", Node: 2, Cost: 1}}
		res := Run(Scenario{
			Nodes: 2, Limit: l, Delay: time.Millisecond, Requests: slices.Values(reqs), Hop: 20 * time.Millisecond,
			Start: quota.Time(at.UnixNano()), Skew: -1, Duration: 2 * time.Second,
		})
		if res.Admitted != want || res.Ideal != want {
			t.Errorf("from %s: admitted %d, the ideal %d; want %d", start, res.Admitted, res.Ideal, want)
		}
	}
}

// TestStopped checks that a run without an end in sight stops on request.
func TestStopped(t *testing.T) {
	asked := 0
	res := Run(Scenario{
		Nodes: 2, Limit: limit(10, 20, quota.Soft), Duration: 1e6 * time.Hour,
		Load:    func(int, time.Duration) float64 { return 100 },
		Stopped: func() bool { asked++; return asked > 3 },
	})
	if res.Attempted == 0 || res.Attempted > 100_000 {
		t.Errorf("it stopped after %d requests", res.Attempted)
	}
}
