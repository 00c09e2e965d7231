package sim

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestInFlight checks that the number in flight over all nodes stays within the limit, that a
// released place can be acquired at any node, and that the places of a dead node become free.
func TestInFlight(t *testing.T) {
	long(t)
	t.Parallel()
	for _, tc := range []struct {
		burst int64
		nodes int
		load  float64 // acquisitions a second, held for 100 ms on average
		way   way
		error float64 // allowed deviation from the ideal, as a fraction of the admissions
		over  float64 // allowed excess over the limit, in places
	}{
		{100, 3, 500, soft, .02, 5},
		{100, 3, 3000, soft, .05, 35},
		{100, 10, 3000, soft, .08, 65},
		{100, 3, 500, hardWaits, .02, 0},
		{100, 3, 3000, hardWaits, .15, 0},
		{100, 10, 3000, hardWaits, .25, 0},
		{10, 3, 300, soft, .12, 8},
		{10, 3, 300, hardWaits, .35, 0},
	} {
		for _, kill := range []time.Duration{0, 4 * time.Second} {
			l := quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Kind: quota.Concurrency, Burst: tc.burst, Ceiling: tc.way.ceiling}
			s := Scenario{
				Seed: 1, Nodes: tc.nodes, Duration: 10 * time.Second, Limit: l, Delay: time.Millisecond, Hop: 20 * time.Millisecond,
				Hold: 100 * time.Millisecond, KillLeader: kill, KillMember: true,
				Load: func(int, time.Duration) float64 { return tc.load / float64(tc.nodes) },
			}
			res := Run(s)
			t.Logf("%3d in flight, %2d nodes, %v/s, %s, kill %v: %+.1f%%, at most %+.0f beyond it", tc.burst, tc.nodes, tc.load, tc.way.name, kill, 100*res.Error(), res.Excess)
			bound := tc.error
			if kill > 0 {
				bound += .12 // one node is dead most of the time, and so are its callers
				if tc.way.ceiling == quota.Hard {
					bound += .08 // and nobody has its share until its lease ends
				}
			}
			if res.Error() < -bound || res.Error() > bound || kill == 0 && res.Excess > tc.over {
				t.Errorf("%+v, kill %v: %+.1f%%, %.0f beyond the limit", tc, kill, 100*res.Error(), res.Excess)
			}
		}
	}
}
