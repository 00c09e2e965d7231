package leader

import (
	"math"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// TestTurns: what one member uses makes it due less and the others more, by their
// parts, and in sum nothing.
func TestTurns(t *testing.T) {
	const token = float64(quota.Token)
	a := &account{limit: &quota.Limit{Ceiling: quota.Hard}, divisionState: divisionState{most: 10 * token}}
	for _, live := range []float64{30, 10, 10} {
		a.holders = append(a.holders, holder{demandState: demandState{live: live * token}})
	}
	h := &a.holders[0]
	h.took = 5 * quota.Token
	(&Ledger{}).turns(1, a, h, a.parts())
	want := []float64{-10. / 3, 5. / 3, 5. / 3}
	for i, w := range want {
		if got := a.holders[i].due / token; got < w-1e-6 || got > w+1e-6 {
			t.Errorf("member %d is due %.3f tokens, want %.3f", i, got, w)
		}
	}
	if h.took != 0 {
		t.Errorf("%d of the report are left to be booked", h.took)
	}
}

// TestEvened: under soft, while there is not enough for all, what a member has had
// missed lately is made up for, by its part at most; and one that has
// had too much is told a level without what others will use.
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
		a := &account{limit: &quota.Limit{Ceiling: tc.ceiling, Burst: 100}, divisionState: divisionState{most: fair}}
		if tc.enough {
			a.most = math.Inf(1)
		}
		h := &holder{demandState: demandState{live: 5 * fair, due: tc.due * token}}
		if got := a.evened(h, fair) / token; math.Abs(got-tc.want) > 1e-6 {
			t.Errorf("%s: %.2f/s, want %.2f/s", tc.name, got, tc.want)
		}
		if got := a.overdrew(h); got != tc.overdrew {
			t.Errorf("%s: overdrew is %v", tc.name, got)
		}
	}
}
