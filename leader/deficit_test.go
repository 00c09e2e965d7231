package leader

import (
	"math"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// TestTurns: use by one member lowers its deficit and raises those of all by their shares; the sum
// is 0.
func TestTurns(t *testing.T) {
	const token = float64(quota.Token)
	b := &bucket{limit: &quota.Limit{Ceiling: quota.Hard}, state: &state{divisionState: divisionState{most: 10 * token}}}
	for _, live := range []float64{30, 10, 10} {
		b.allocations = append(b.allocations, allocation{demandState: demandState{live: live * token}})
	}
	al := &b.allocations[0]
	al.lastUsed = 5 * quota.Token
	(&Ledger{}).bookDeficit(1, b, al, b.parts())
	want := []float64{-10. / 3, 5. / 3, 5. / 3}
	for i, w := range want {
		if got := b.allocations[i].deficit / token; got < w-1e-6 || got > w+1e-6 {
			t.Errorf("member %d is due %.3f tokens, want %.3f", i, got, w)
		}
	}
	if al.lastUsed != 0 {
		t.Errorf("%d of the report are left to be booked", al.lastUsed)
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
		b := &bucket{limit: &quota.Limit{Ceiling: tc.ceiling, Burst: 100}, state: &state{divisionState: divisionState{most: fair}}}
		if tc.enough {
			b.most = math.Inf(1)
		}
		al := &allocation{demandState: demandState{live: 5 * fair, deficit: tc.due * token}}
		if got := b.withDeficit(al, fair) / token; math.Abs(got-tc.want) > 1e-6 {
			t.Errorf("%s: %.2f/s, want %.2f/s", tc.name, got, tc.want)
		}
		if got := b.overdrew(al); got != tc.overdrew {
			t.Errorf("%s: overdrew is %v", tc.name, got)
		}
	}
}
