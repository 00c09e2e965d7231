package leader

import (
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// TestTurns: what one member uses makes it due less and the others more, by their
// parts, and in sum nothing.
func TestTurns(t *testing.T) {
	const token = float64(quota.Token)
	a := &account{holders: []holder{{live: 30 * token}, {live: 10 * token}, {live: 10 * token}}}
	h := &a.holders[0]
	h.took = 5 * quota.Token
	a.turns(1, h, terms{level: 10 * token})
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
