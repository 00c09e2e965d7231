package accounts

import (
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// TestLine has many callers of one node change the same accounts of several ranges at a time, in
// any order, and one account of their own. They wait for each other, so each needs one attempt, and
// all succeed.
func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, ranges = 30, 3
		w := newWorldOf(t, ranges)
		var begun atomic.Int64
		w.meet = func(_ quota.RangeID, c *account.Command) {
			if c.Begin != nil {
				begun.Add(1)
			}
			time.Sleep(time.Millisecond) // as long as a disk takes
		}
		ops := in(ranges)
		for i := range ops {
			ops[i].RelativeTo, ops[i].Options = account.Balance, account.IgnorePolicyBounds
			zero := ops[i]
			zero.RelativeTo, zero.Delta = account.Zero, 0
			if out, err := w.ApplyOps(t.Context(), account.Caller{By: "me"}, "", 0, []account.Op{zero}); err != nil || out.Code != account.Done {
				t.Fatalf("%+v, %v", out, err)
			}
		}
		done := make(chan error, calls)
		for i := range calls {
			mine := slices.Clone(ops)
			mine[0], mine[i%ranges] = mine[i%ranges], mine[0]
			mine = append(mine, add(fmt.Sprint("mine", i))...)
			go func() {
				out, err := w.ApplyOps(t.Context(), account.Caller{By: "me"}, strconv.Itoa(i), 0, mine)
				if err == nil && out.Code != account.Done {
					err = fmt.Errorf("code %v", out.Code)
				}
				done <- err
			}()
		}
		for range calls {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if begun.Load() != calls {
			t.Errorf("%d attempts of %d calls", begun.Load(), calls)
		}
		time.Sleep(time.Second) // for the other ranges to learn the decisions
		for i := range ops {
			if got := w.replicas[w.rangeOf(ops[i].Account)].View().Get(w.Now(), ops[i].Account).Balance; got != calls {
				t.Errorf("account %d has %d, want %d", i, got, calls)
			}
		}
		if n := len(w.lines.of); n != 0 {
			t.Errorf("%d lines are left", n)
		}
	})
}

// TestLineBounds fills the lines up to their bounds: further calls go on without waiting, and
// nothing is left when all have ended.
func TestLineBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lines
		call := func(name string) []part {
			return []part{{request: account.Request{Ops: []account.Op{{Account: account.ID{Name: name}}}}}}
		}
		first := l.enter(t.Context(), call("busy"))
		for range maxInLine {
			go func() { l.enter(t.Context(), call("busy"))() }()
		}
		synctest.Wait()
		began := time.Now()
		l.enter(t.Context(), call("busy"))()
		if d := time.Since(began); d != 0 || l.places.Held() != maxInLine {
			t.Errorf("one more waited %v behind %d, want not at all behind %d", d, l.places.Held(), maxInLine)
		}
		first()
		synctest.Wait()
		var held []func()
		for i := range maxLineBytes/account.MaxAtom + 1 {
			held = append(held, l.enter(t.Context(), call(fmt.Sprintf("%0*d", account.MaxAtom, i))))
		}
		if want := maxLineBytes / account.MaxAtom; len(l.of) != want || l.bytes > maxLineBytes {
			t.Errorf("%d accounts in %d bytes have lines, want %d in at most %d", len(l.of), l.bytes, want, maxLineBytes)
		}
		for _, leave := range held {
			leave()
		}
		if len(l.of) != 0 || l.places.Held() != 0 || l.bytes != 0 {
			t.Errorf("left: %d lines, %d that wait, %d bytes", len(l.of), l.places.Held(), l.bytes)
		}
	})
}
