package sim

import (
	"testing"
	"time"

	stated "github.com/quorate/quorate/internal/bound"
	"github.com/quorate/quorate/internal/quota"
)

// TestBound plays random scenarios of soft limits, with leaders that die and
// without, with and without a hop, of which no message is lost: what is admitted
// beyond the envelope stays below the stated bound of the situation.
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
			s.KillLeader, s.Delay, s.Jitter = 0, 0, 0 // it leads itself, and nobody takes over
		}
		if s.KillLeader > 0 {
			// One leader dies, and there is another before the leases are over.
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
