package sim

import (
	"testing"
	"time"

	stated "github.com/quorate/quorate/internal/bound"
	"github.com/quorate/quorate/internal/quota"
)

// TestBound plays random scenarios of soft limits without message loss, with and without leaders
// that die, with and without a hop. It checks that the excess over the envelope stays below the
// bound stated for the situation.
func TestBound(t *testing.T) {
	long(t)
	t.Parallel()
	seeds := uint64(600)
	if testing.Short() {
		seeds = 60
	}
	most := map[string]float64{}
	for seed := range seeds {
		s, line := random(seed, quota.Soft)
		s.Loss, s.Repeat = 0, 0
		name := stated.Surge
		if s.Nodes == 1 {
			s.KillLeader, s.Delay, s.Jitter = 0, 0, 0 // one node leads itself, and nobody takes over
		}
		if s.KillLeader > 0 {
			// One leader dies, and the next is elected before the leases end.
			name, s.KillAgain, s.Linger = stated.Failover, 0, 0
			s.Election = min(s.Election, 2*time.Second)
		}
		c := stated.Cluster{Nodes: s.Nodes, Delay: s.Delay + s.Jitter, Sync: 100 * time.Millisecond, Lease: 3 * time.Second, Election: s.Election}
		excess := Run(s).Excess
		for _, b := range stated.Of(&s.Limit, c) {
			if b.Name != name {
				continue
			}
			most[name] = max(most[name], excess/b.Worst)
			if excess > b.Worst {
				t.Errorf("%s\n\t%.2f tokens beyond the envelope; %s: %s", line, excess, name, b.Numbers)
			}
		}
	}
	t.Logf("%d scenarios: at most %.2f of the bound of a surge, %.2f of that of a failover", seeds, most[stated.Surge], most[stated.Failover])
}
