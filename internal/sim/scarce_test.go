package sim

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestSmallParts checks that limits are used where the part of a node is a few requests. Each row is named after
// a heuristic (internal/mutation) without which the limit admits so much less that the bound is missed.
func TestSmallParts(t *testing.T) {
	for _, tc := range []struct {
		heuristic   string
		rate, burst int64
		way         way
		nodes       int
		clump       int
		times       float64 // the limit
		seconds     int
		under       float64 // percent
	}{
		// What lies with one member is missing at another.
		{"the leader decides where tokens are few", 10_000, 100, hardAuto, 10, 10, 0.8, 2, 3},
		// Less than half of ten requests is overdrawn for, by all at once.
		{"no rate where a part of the burst is less than half a batch", 10_000, 100, soft, 50, 10, 3, 2, 20},
		// Two tokens an interval admit nothing of ten.
		{"under hard, a rate of less than a quarter of a batch an interval is none", 1000, 100, hard, 50, 10, 3, 6, 68},
		{"a member is asked back only what it does not need", 100, 100, hard, 50, 1, 0.9, 10, 24},
		{"a key asks before it has used up what it holds", 1000, 100, hardAuto, 2, 5, 0.9, 6, 4},
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
		t.Logf("%s: %+.2f %%", tc.heuristic, off)
		if off < -tc.under {
			t.Errorf("%s: %+.2f %%; want at most %v %% too few", tc.heuristic, off, tc.under)
		}
	}
}

// TestFewTokens checks that two nodes that share a soft limit of 2/s, burst 2, refuse hardly more than one would:
// what the other node has used meanwhile is a guess, of fractions of tokens. The bound is the average of ten
// runs of five minutes.
func TestFewTokens(t *testing.T) {
	for _, times := range []float64{0.9, 2} {
		var off float64
		for seed := range uint64(10) {
			off += 10 * Run(Scenario{
				Seed: seed, Nodes: 2, Duration: 5 * time.Minute, Limit: limit(2, 2, quota.Soft), Delay: time.Millisecond, Hop: 20 * time.Millisecond,
				Loads: []Load{{Rate: 2 * times}},
			}).Error()
		}
		t.Logf("%v times the limit: %+.2f %%", times, off)
		if off < -1.5 {
			t.Errorf("%v times the limit: %+.2f %%; want at most 1.5 %% too few", times, off)
		}
	}
}
