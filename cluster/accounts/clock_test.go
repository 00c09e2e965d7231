package accounts

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// TestLogAheadGoesOn: where a clock that was ahead has written into the log, later entries go on from
// there as time passes: refills come, and do not wait until right clocks have caught up.
func TestLogAheadGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const right = quota.Time(1_700_000_000_000_000_000)
		collect := []account.Command{{Collect: &account.Collect{Max: 1}}}
		r := NewReplica()
		if at := r.now(right); at != right {
			t.Errorf("the first entry is of %v; want %v", at, right)
		}
		for _, at := range []quota.Time{right, right.Add(3 * time.Hour), right.Add(time.Second)} {
			data, err := account.EncodeBatch(at, collect)
			if err != nil {
				t.Fatal(err)
			}
			r.Apply(data)
			time.Sleep(time.Second)
		}
		if got, want := r.now(right.Add(3*time.Second)), right.Add(3*time.Hour+2*time.Second); got != want {
			t.Errorf("the next entry is of %v; want %v", got.Sub(right), want.Sub(right))
		}
		if got, want := r.now(right.Add(4*time.Hour)), right.Add(4*time.Hour); got != want {
			t.Errorf("a clock that is later: the next entry is of %v; want %v", got.Sub(right), want.Sub(right))
		}
	})
}
