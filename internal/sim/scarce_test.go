package sim

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestScarce checks that the leader decides a hard limit with few tokens for its members: what lies with one of
// them is missing at another. Ten requests at a time come to one of ten nodes, 8000/s of 10,000/s, and the burst
// is 100. Divided, the limit admits half of them; so it does where no hop is allowed.
func TestScarce(t *testing.T) {
	play := func(decide quota.Decide) float64 {
		s := Scenario{
			Seed: 1, Nodes: 10, Duration: 3 * time.Second, Limit: limit(10_000, 100, quota.Hard), Delay: time.Millisecond,
			Loads: []Load{{Rate: 8000, Clump: 10}},
		}
		s.Limit.Decide = decide
		return 100 * Run(s).Error()
	}
	auto, local := play(quota.Auto), play(quota.Locally)
	t.Logf("%.2f %% with a hop, %.2f %% without", auto, local)
	if auto < -2 {
		t.Errorf("%.2f %% with a hop; want at most 2 %% too few", auto)
	}
}
