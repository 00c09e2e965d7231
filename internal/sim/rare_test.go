package sim

import (
	"testing"
	"time"
)

// TestRareBesideFlood checks the traffic of a hard limit of 10 requests a second, where one member tries forty times that
// and the others about one request a second each. Tokens that the leader reserved for the others, and that they would not
// use soon, would make all members ask for them again: the reports and answers would have 38 % more bytes.
func TestRareBesideFlood(t *testing.T) {
	const seeds = 6
	bytes, reports := 0.0, 0.0
	for seed := range uint64(seeds) {
		s := Scenario{
			Seed: seed, Nodes: 12, Duration: 10 * time.Second, Delay: time.Millisecond, Hop: 20 * time.Millisecond, Skew: -1, Near: true,
			Limit: limit(10, 10, hard.ceiling), Loads: []Load{{Rate: 10}, {Rate: 400, Spread: Spread{Nodes: []int{1}}}},
		}
		s.Limit.Decide = hard.decide
		r := Run(s)
		bytes, reports = bytes+float64(r.Bytes)/seeds, reports+float64(r.Reports)/seeds
	}
	if t.Logf("%.0f bytes, %.0f reports", bytes, reports); bytes > 25_000 {
		t.Errorf("%.0f bytes; want at most 25,000", bytes)
	}
}
