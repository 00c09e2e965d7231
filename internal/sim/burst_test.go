package sim

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestBurstOnAllNodes shows how a soft limit handles bursts that reach all nodes within a few round
// trips, and checks that a hop (decide: auto) improves it: fifty requests in ten milliseconds, every
// two seconds, against 10/s with a burst of twenty.
func TestBurstOnAllNodes(t *testing.T) {
	burst := func(_ int, t time.Duration) float64 {
		if t%(2*time.Second) < 10*time.Millisecond {
			return 5000. / 3
		}
		return 0
	}
	worst := func(decide quota.Decide) (excess float64) {
		for seed := range uint64(10) {
			l := limit(10, 20, quota.Soft)
			l.Decide = decide
			r := Run(Scenario{
				Seed: seed, Nodes: 3, Duration: 20 * time.Second, Limit: l,
				Delay: time.Millisecond, Load: burst,
			})
			excess = max(excess, r.Excess)
		}
		return excess
	}
	local, auto := worst(quota.Locally), worst(quota.Auto)
	t.Logf("worst excess of ten seeds: %.1f tokens decided locally, %.1f with a hop", local, auto)
	if auto > 15 || auto >= local {
		t.Errorf("with a hop %.1f tokens beyond the envelope, without %.1f; want at most 15, and less", auto, local)
	}
}
