package leader

import (
	"math"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestTurns: use by one member lowers its deficit and raises those of all by their shares; the sum
// is 0.
func TestTurns(t *testing.T) {
	const token = float64(quota.Token)
	b := &bucket{rule: &rule{limit: &quota.Limit{Ceiling: quota.Hard}}, state: &state{divisionState: divisionState{waterLevel: 10 * token}}}
	for _, live := range []float64{30, 10, 10} {
		b.allocations = append(b.allocations, allocation{demandState: demandState{live: float32(live * token)}})
	}
	al := &b.allocations[0]
	(&Ledger{}).bookDeficit(1, b, al, 5*quota.Token, b.parts())
	want := []float64{-10. / 3, 5. / 3, 5. / 3}
	for i, w := range want {
		if got := float64(b.allocations[i].deficit) / token; got < w-1e-6 || got > w+1e-6 {
			t.Errorf("member %d is due %.3f tokens, want %.3f", i, got, w)
		}
	}
}

// TestEvened: under soft, while tokens are scarce, a member with a deficit gets a higher rate, at
// most twice its share; one that used too much receives a level without what others will use.
func TestEvened(t *testing.T) {
	const token, fair = float64(quota.Token), 10 * float64(quota.Token)
	for _, tc := range []struct {
		name     string
		ceiling  quota.Ceiling
		enough   bool
		due      float64
		want     float64
		overdrew bool
	}{
		{"as it should", quota.Soft, false, 0, 10, false},
		{"too much, by chance", quota.Soft, false, -6, 10, false},
		{"too much", quota.Soft, false, -12, 10, true},
		{"far too much", quota.Soft, false, -30, 10, true},
		{"too little", quota.Soft, false, 12, 14, false},
		{"far too little", quota.Soft, false, 60, 20, false},
		{"enough for all", quota.Soft, true, -12, 10, false},
		{"by turns", quota.Hard, false, -12, 10, false},
	} {
		b := &bucket{rule: &rule{limit: &quota.Limit{Ceiling: tc.ceiling, Burst: 100}}, state: &state{divisionState: divisionState{waterLevel: fair}}}
		if tc.enough {
			b.waterLevel = math.Inf(1)
		}
		al := &allocation{demandState: demandState{live: float32(5 * fair), deficit: float32(tc.due * token)}}
		if got := b.withDeficit(al, fair) / token; math.Abs(got-tc.want) > 1e-6 {
			t.Errorf("%s: %.2f/s, want %.2f/s", tc.name, got, tc.want)
		}
		if got := b.overdrew(al); got != tc.overdrew {
			t.Errorf("%s: overdrew is %v", tc.name, got)
		}
	}
}

// TestLendable: a member that asks for less than an equal share and has no rate gets its deficit from an empty pool.
// Others get only what they just returned.
func TestLendable(t *testing.T) {
	const token = float64(quota.Token)
	l := &Ledger{cfg: Config{Sync: 100 * time.Millisecond}}
	for _, tc := range []struct {
		name                                 string
		ceiling                              quota.Ceiling
		share                                float64 // tokens a second
		live, tried, rate, deficit, returned float64
		lendable, kept                       float64
	}{
		{"less than a share", quota.Soft, 8, 5, 5, 0, 3, 1, 3, 1},
		{"no deficit", quota.Soft, 8, 5, 5, 0, 0, 4, 0, 0},
		{"it had too much", quota.Soft, 8, 5, 5, 0, -3, 4, 0, 0},
		{"less than a token in three intervals", quota.Soft, 8, 3, 3, 0, 3, 2, 0, 2},
		{"more than a token an interval", quota.Soft, 20, 11, 11, 0, 3, 2, 0, 2},
		{"more than a token an interval, in clumps", quota.Soft, 20, 5, 11, 0, 3, 2, 0, 2},
		{"it has a rate", quota.Soft, 8, 5, 5, 5, 3, 2, 0, 2},
		{"more than a share", quota.Soft, 4, 5, 5, 0, 3, 4, 0, 3},
		{"enough for all", quota.Soft, math.Inf(1), 5, 5, 0, 3, 2, 0, 0},
		{"hard", quota.Hard, 8, 5, 5, 0, 3, 2, 0, 0},
	} {
		b := &bucket{rule: &rule{limit: &quota.Limit{Ceiling: tc.ceiling}}, state: &state{
			allocations: make([]allocation, 9), divisionState: divisionState{waterLevel: tc.share * token},
		}}
		al := &allocation{demandState: demandState{live: float32(tc.live * token), tried: float32(tc.tried * token), deficit: float32(tc.deficit * token)}}
		al.rate = quota.RoundUnits(tc.rate * token)
		if got, want := l.lendable(b, al), quota.RoundUnits(tc.lendable*token); got != want {
			t.Errorf("%s: %v lendable, want %v", tc.name, got, want)
		}
		if got, want := b.keptOfReturned(al, quota.RoundUnits(tc.returned*token)), quota.RoundUnits(tc.kept*token); got != want {
			t.Errorf("%s: %v kept of what it returned, want %v", tc.name, got, want)
		}
	}
}
