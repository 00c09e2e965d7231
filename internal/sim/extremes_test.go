package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestLargestAmounts checks limits of all kinds with the largest amounts that a limit may have.
// Between two reports the load asks for parts of the burst, for all of it, and for much more, as
// limits of bytes see it. No counter may overflow: the key must be answered and keep the promise of
// its ceiling. In the end the load asks for little, of which there is enough, and the limit must
// admit it.
func TestLargestAmounts(t *testing.T) {
	const most = quota.MaxTokens
	for i, tier := range []quota.Tier{
		{Rate: quota.Rate{Tokens: most / 2, Per: time.Second}, Burst: most},
		{Rate: quota.Rate{Tokens: most, Per: time.Second}, Burst: most},
		{Rate: quota.Rate{Tokens: most, Per: time.Second}, Burst: most / 1000},
		quota.Window(quota.FixedWindow, most, 2*time.Second),
		quota.Window(quota.SlidingWindow, most, 2*time.Second),
		quota.Window(quota.PeriodicRefill, most, 2*time.Second),
	} {
		for _, c := range []quota.Ceiling{quota.Soft, quota.Hard} {
			for clients := range 2 {
				t.Run(fmt.Sprintf("%d %v %d clients", i, c, 3*clients), func(t *testing.T) {
					l := tiered(c, tier)
					late, admitted := 0, 0
					s := Scenario{
						Seed: 1, Nodes: 3, Clients: 3 * clients, Sync: 100 * time.Millisecond, Delay: time.Millisecond, Hop: 20 * time.Millisecond,
						Limit: l, Near: true, Skew: -1, Requests: largest(uint64(i), l.Burst),
						Decided: func(at time.Duration, _ int, _ string, d quota.Decision, _ bool) {
							if at >= 12*time.Second {
								late++
								if d.Allowed {
									admitted++
								}
							}
						},
					}
					r := Run(s)
					if c == quota.Hard && tier.Kind != quota.PeriodicRefill && r.Excess > float64(l.Burst)*1e-9 {
						t.Errorf("%.0f tokens beyond the hard limit", r.Excess)
					}
					least := late * 9 / 10
					if c == quota.Hard && tier.Burst < tier.Rate.Tokens/100 {
						// The burst refills within the time of a message: what members may have used and
						// refilled since their reports is not given twice.
						least = late / 2
					}
					if late == 0 || admitted < least {
						t.Errorf("%d of %d small requests were admitted after the large ones; want %d", admitted, late, least)
					}
				})
			}
		}
	}
}

// largest yields two seconds of requests of any size, then a pause, then small ones.
func largest(seed uint64, burst int64) func(func(Request) bool) {
	return func(yield func(Request) bool) {
		rng := rand.New(rand.NewPCG(seed, 17))
		costs := []int64{1, burst / 1000, burst / 3, burst, quota.MaxTokens, quota.MaxTokens}
		for at := time.Duration(0); at < 2*time.Second; at += 2 * time.Millisecond {
			if !yield(Request{At: at, Key: "k", Node: 1 + rng.IntN(3), Cost: costs[rng.IntN(len(costs))]}) {
				return
			}
		}
		for at := 12 * time.Second; at < 14*time.Second; at += 20 * time.Millisecond {
			if !yield(Request{At: at, Key: "k", Node: 1 + rng.IntN(3), Cost: 1 + burst/100_000}) {
				return
			}
		}
	}
}
