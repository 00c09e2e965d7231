package sim

import (
	"testing"
	"time"
)

// TestRecallWhileOverdue checks that a member whose report was not answered in time reports again when a recall
// reaches it: then others miss its tokens. Where three messages of ten are lost, it would otherwise wait for up to
// three intervals, and a hard limit would admit 11 to 15 % too little instead of 2 to 3 %.
func TestRecallWhileOverdue(t *testing.T) {
	for name, load := range map[string]Load{
		"on and off":              {Rate: 1500, On: time.Second, Off: time.Second},
		"clumps of five requests": {Rate: 750, Clump: 5},
	} {
		const seeds = 8
		off := 0.0
		for seed := range uint64(seeds) {
			s := Scenario{
				Seed: seed + 1, Nodes: 12, Duration: 8 * time.Second, Delay: time.Millisecond, Loss: 0.3, Hop: 20 * time.Millisecond, Skew: -1, Near: true,
				Limit: limit(500, 500, hardAuto.ceiling), Loads: []Load{load},
			}
			s.Limit.Decide = hardAuto.decide
			off += 100 * Run(s).Error() / seeds
		}
		t.Logf("%s: %+.2f %%", name, off)
		if off < -6 {
			t.Errorf("%s: %+.2f %%; want at most 6 %% too few", name, off)
		}
	}
}
