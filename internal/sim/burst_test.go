package sim

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestBurstOnAllNodes shows how a soft limit handles bursts that reach all nodes within a few round
// trips, and checks that waiting for a hop improves it: fifty requests in ten milliseconds, every
// two seconds, against 10/s with a burst of twenty.
func TestBurstOnAllNodes(t *testing.T) {
	burst := func(_ int, t time.Duration) float64 {
		if t%(2*time.Second) < 10*time.Millisecond {
			return 5000. / 3
		}
		return 0
	}
	worst := func(hop time.Duration) (excess float64) {
		for seed := range uint64(10) {
			r := Run(Scenario{
				Seed: seed, Nodes: 3, Duration: 20 * time.Second, Limit: limit(10, 20, quota.Soft),
				Delay: time.Millisecond, Load: burst, Hop: hop,
			})
			excess = max(excess, r.Excess)
		}
		return excess
	}
	guessing, waiting := worst(0), worst(20*time.Millisecond)
	t.Logf("worst excess of ten seeds: %.1f tokens at once, %.1f with a hop", guessing, waiting)
	if waiting > 15 || waiting >= guessing {
		t.Errorf("with a hop %.1f tokens beyond the envelope, without %.1f; want at most 15, and less", waiting, guessing)
	}
}
