package accounts

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// in returns operations that add to one account in each range.
func in(ranges int) (ops []account.Op) {
	for r := range quota.RangeID(ranges) {
		for i := 0; ; i++ {
			one := add(fmt.Sprint("x", i))
			if RangeOf(one[0].Account, ranges) == r {
				ops = append(ops, one...)
				break
			}
		}
	}
	return ops
}

// TestCallerLeaves ends the call at every step of a transaction while that step is on its way into
// the log, like a caller that hangs up or runs out of time. In the end, the transaction is applied
// in all ranges or in none.
func TestCallerLeaves(t *testing.T) {
	type step = func(*account.Command) bool
	steps := map[string]struct {
		at   step
		want int64 // in each account
	}{
		"begin":   {func(c *account.Command) bool { return c.Begin != nil }, 0},
		"prepare": {func(c *account.Command) bool { return c.Prepare != nil }, 0},
		"decide":  {func(c *account.Command) bool { return c.Decide != nil && c.Decide.Commit }, 1},
	}
	why := map[string]error{"hangs up": context.Canceled, "has no time left": context.DeadlineExceeded}
	for name, s := range steps {
		for how, cause := range why {
			t.Run(name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const ranges = 3
					w := newWorldOf(t, ranges)
					w.Start()
					ctx, leave := context.WithTimeout(t.Context(), time.Second)
					defer leave()
					left, met := make(chan struct{}), atomic.Bool{}
					w.meet = func(_ quota.RangeID, c *account.Command) {
						if !s.at(c) || met.Swap(true) {
							return
						}
						if errors.Is(cause, context.Canceled) {
							leave()
						}
						<-left
						time.Sleep(time.Millisecond) // let the coordinator act first, where it can
					}
					ops := in(ranges)
					out, err := w.ApplyOps(ctx, account.Caller{By: "me"}, "r1", 0, ops)
					close(left)
					if !met.Load() || err == nil {
						t.Fatalf("met %v: %+v, %v", met.Load(), out, err)
					}
					time.Sleep(10 * time.Second) // longer than an undecided transaction is left alone
					for i := range ops {
						r := quota.RangeID(i)
						v := w.replicas[r].View()
						if got := v.Get(w.Now(), ops[i].Account).Balance; got != s.want || len(v.Pending(1)) > 0 {
							t.Errorf("range %d: balance %d, want %d; pending %+v", r, got, s.want, v.Pending(1))
						}
					}
				})
			})
		}
	}
}

// TestCommitsNothingUnprepared: a coordinator that cannot reach a range commits nothing in the others.
func TestCommitsNothingUnprepared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ranges = 3
		w := newWorldOf(t, ranges)
		w.Start()
		w.StopAt(func(step string, _ quota.RangeID) bool { return step == "prepare" })
		ops := in(ranges)
		if out, err := w.ApplyOps(t.Context(), account.Caller{By: "me"}, "r1", 0, ops); err == nil {
			t.Errorf("two of three ranges were not reached: %+v", out)
		}
		time.Sleep(10 * time.Second) // longer than an undecided transaction is left alone
		for i := range ops {
			r := quota.RangeID(i)
			v := w.replicas[r].View()
			if got := v.Get(w.Now(), ops[i].Account); got.Exists || len(v.Pending(1)) > 0 {
				t.Errorf("range %d: balance %d, pending %+v; want nothing", r, got.Balance, v.Pending(1))
			}
		}
	})
}

// TestRefusedInDoubt: the answer to a single call does not claim that nothing was done while an
// earlier try of the node may still be applied.
func TestRefusedInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fail = func(entry int) (error, bool) { // the first entry is in flight for longer than any caller waits
			if entry == 0 {
				return raftgroup.ErrUncertain, false
			}
			return nil, false
		}
		ops := add("x")
		ops[0].RelativeTo = account.Balance // the account does not exist
		out, err := w.ApplyOps(t.Context(), account.Caller{By: "me"}, "r1", 0, ops)
		var u *UnavailableError
		if !errors.As(err, &u) || !u.Unknown {
			t.Errorf("with a doubt: %+v, %v", out, err)
		}
		if out, err := w.ApplyOps(t.Context(), account.Caller{By: "me"}, "r2", 0, ops); err != nil || out.Code != account.Failed {
			t.Errorf("without: %+v, %v", out, err)
		}
	})
}
