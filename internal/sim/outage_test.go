package sim

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestNoDebtAfterStandstill pauses or kills nodes for ten seconds, while their clients decide
// alone. It checks that the clients' admissions below the limit are no debt afterwards: in the two
// seconds after the nodes return, callers get what one ideal limiter admits, within a tenth.
func TestNoDebtAfterStandstill(t *testing.T) {
	for _, tc := range []struct {
		name  string
		kind  FaultKind
		nodes []int
	}{
		{"all nodes stood still", Pause, []int{1, 2, 3}},
		{"one of three nodes stood still", Pause, []int{1}},
		{"all nodes were killed", Kill, []int{1, 2, 3}},
		{"one of three nodes was killed", Kill, []int{1}},
	} {
		for _, burst := range []int64{10, 20, 100} {
			var asked, admitted, ideal int64
			for seed := range uint64(10) {
				r := Run(Scenario{
					Seed: seed, Nodes: 3, Clients: 9, Duration: 20 * time.Second, Limit: limit(10, burst, quota.Soft),
					Delay: 500 * time.Microsecond, Near: true, Skew: -1, Loads: []Load{{Rate: 9}},
					Faults: []Fault{{At: 4 * time.Second, Kind: tc.kind, Nodes: tc.nodes, For: 10 * time.Second}},
				})
				for _, s := range r.Series[14:16] {
					asked, admitted, ideal = asked+s.Attempted, admitted+s.Admitted, ideal+s.Ideal
				}
			}
			t.Logf("%s, burst %d: %d of %d admitted, an ideal limiter %d", tc.name, burst, admitted, asked, ideal)
			if admitted*10 < ideal*9 {
				t.Errorf("%s: %d of %d were admitted in the two seconds after, an ideal limiter admits %d", tc.name, admitted, asked, ideal)
			}
		}
	}
}
