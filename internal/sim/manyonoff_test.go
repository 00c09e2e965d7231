package sim

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestOnOffOnManyNodes checks that a soft limit is used where each of many nodes gets less than a token an interval, when
// ten times the limit comes at once. If all that some members were refused were reserved for them, it would lie unused
// until they report, and 4.7 % too little would be admitted.
func TestOnOffOnManyNodes(t *testing.T) {
	const seeds = 2
	off := 0.0
	for seed := range uint64(seeds) {
		off += 100 * Run(Scenario{
			Seed: seed + 1, Nodes: 400, Duration: 4 * time.Second, Limit: limit(1000, 1000, quota.Soft), Delay: time.Millisecond,
			Loads: []Load{{Rate: 10_000, On: time.Second, Off: time.Second}},
		}).Error() / seeds
	}
	if t.Logf("%+.2f %%", off); off < -3.6 {
		t.Errorf("%+.2f %%; want at most 3.6 %% too few", off)
	}
}
