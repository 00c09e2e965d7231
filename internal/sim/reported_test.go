package sim

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestAnswersCountOnce has leaders decide soft limits whose counts endure, over the ends of many windows. What
// callers received and what the leader has booked must be equal, while nobody dies.
func TestAnswersCountOnce(t *testing.T) {
	t.Parallel()
	tiers := map[string]quota.Tier{
		"bucket":   {Rate: quota.Rate{Tokens: 50, Per: time.Second}, Burst: 100},
		"fixed":    quota.Window(quota.FixedWindow, 1000, 10*time.Second),
		"sliding":  quota.Window(quota.SlidingWindow, 750, 10*time.Second),
		"periodic": quota.Window(quota.PeriodicRefill, 1000, 10*time.Second),
		"calendar": quota.Per(6000, quota.Calendar{Unit: quota.Minute}),
	}
	for name, tier := range tiers {
		for seed := range uint64(10) {
			l := limit(1, 1, quota.Soft)
			l.SetFirst(tier)
			l.Durable, l.Decide = true, quota.AtLeader
			s := Scenario{
				Seed: seed, Nodes: 3, Duration: 75 * time.Second, Limit: l, Skew: -1, Delay: 3 * time.Millisecond,
				Jitter: time.Duration(seed%3) * 4 * time.Millisecond, Loss: .02 * float64(seed%4), Repeat: .02 * float64(seed%2), Hop: 20 * time.Millisecond,
				Loads: []Load{{Rate: 80, To: 70 * time.Second}}, Check: true,
			}
			res := Run(s)
			if res.Lost != 0 || len(res.Violations) > 0 {
				t.Errorf("%s, seed %d: of %d admitted %d are not in the books; %q", name, seed, res.Admitted, res.Lost, res.Violations)
			}
		}
	}
}
