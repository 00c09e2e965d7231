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

// TestSmallParts checks that limits are used where the part of a node is a few requests. Each row is named after
// the heuristics (internal/mutation) without which the limit admits so much less that the bound is missed.
func TestSmallParts(t *testing.T) {
	for _, tc := range []struct {
		heuristics  string
		rate, burst int64
		way         way
		nodes       int
		clump       int
		times       float64 // the limit
		seconds     int
		under       float64 // percent
	}{
		// Less than half of ten requests is overdrawn for, by all at once.
		{"no rate where a part of the burst is less than half a clump", 10_000, 100, soft, 50, 10, 3, 2, 20},
		// Two tokens an interval admit nothing of ten.
		{"under hard, a rate of less than a quarter of a clump an interval is none", 1000, 100, hard, 50, 10, 3, 6, 65},
		{"a member is asked back only what it does not need", 100, 100, hard, 50, 1, 0.9, 10, 24},
		{"a key asks before it has used up what it holds", 1000, 100, hardAuto, 2, 5, 0.9, 6, 4},
		// What others may have used is less than they demand on average, or they have stopped.
		{"others' demand counts less a standard deviation", 1, 1, soft, 10, 1, 2, 1800, 6.5},
		{"a fraction that others may have used refuses nobody; others' demand is believed for three intervals", 1, 1, soft, 10, 1, 20, 600, 23},
	} {
		var off float64
		for seed := range uint64(2) {
			s := Scenario{
				Seed: seed, Nodes: tc.nodes, Duration: time.Duration(tc.seconds) * time.Second, Limit: limit(tc.rate, tc.burst, tc.way.ceiling), Delay: time.Millisecond,
				Hop: 20 * time.Millisecond, Loads: []Load{{Rate: tc.times * float64(tc.rate), Clump: tc.clump}},
			}
			s.Limit.Decide = tc.way.decide
			off += 50 * Run(s).Error()
		}
		t.Logf("%s: %+.2f %%", tc.heuristics, off)
		if off < -tc.under {
			t.Errorf("%s: %+.2f %%; want at most %v %% too few", tc.heuristics, off, tc.under)
		}
	}
}
