package aggregator

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestUndoAfterEarlyEnd: a charge of a hard window that has ended here, but not certainly at the leader, is not held
// again.
func TestUndoAfterEarlyEnd(t *testing.T) {
	l := ruleOf("l", quota.Window(quota.FixedWindow, 10, time.Minute), hard)
	r := withSecond(t, l)
	begins, ends := minuteOf(start)
	r.now = ends.Add(-time.Second)
	r.check(l.LimitName, "k", 1)
	rep := r.collect()
	r.now = r.now.Add(50 * time.Millisecond) // the grant may have taken all of it
	r.answer(rep, fourTokens(begins, ends))
	r.interrupted(l.LimitName, 2, false, func() {
		r.now = ends.Add(-40 * time.Millisecond)
		r.want(l.LimitName, 1, false, quota.WhyNotHeld)
	})
	r.now = ends.Add(-30 * time.Millisecond) // the leader may be in the next window
	r.want(l.LimitName, 1, false, quota.WhyNotHeld)
	r.now = ends
	r.check(l.LimitName, "k", 0)
	b := r.bucketOf(l.LimitName, "k")
	if e := b.reported(r.now, 1); e.Used != 0 || e.Before != 0 || e.Held != 0 {
		t.Errorf("used %d, before %d, held %d, want none", e.Used, e.Before, e.Held)
	}
}

// TestLeaveDuringAHardCall: a member that leaves its leader returns no token that a call has charged. The call counts in the
// last report, and nowhere else, whether it is admitted or not.
func TestLeaveDuringAHardCall(t *testing.T) {
	for _, admits := range []bool{false, true} {
		n := quota.LimitName{Namespace: "n", Limit: "l"}
		r := withSecond(t, limit(n, 20, quota.Hard))
		r.check(n, "k", 1)
		r.answer(r.collect(), quota.GrantEntry{Tokens: 10 * tokens, Cap: 10 * tokens, Level: 20 * tokens})
		r.interrupted(n, 4, admits, func() {
			for _, e := range r.Leave(r.now, 0)[0].Entries {
				if e.Key.LimitName == n && (e.Used != 4*tokens || e.Held != 0) {
					t.Errorf("last report: %d used, %d held, want 4 and 0", e.Used/tokens, e.Held/tokens)
				}
			}
		})
		b := r.bucketOf(n, "k")
		held := quota.Units(b.hot().held.Load())
		if e := b.reported(r.now, 2); e.Used != 0 || e.Overdrawn != 0 || e.Held != 0 || held != 0 || b.undecided != 0 {
			t.Errorf("admitted %v: next epoch: %d used, %d overdrawn, %d held, %d undecided, want none", admits, e.Used/tokens, e.Overdrawn/tokens, held/tokens, b.undecided/tokens)
		}
	}
}

// TestUndoUnderTheCap: tokens that an undecided call may give back take room under the cap, after a report too.
func TestUndoUnderTheCap(t *testing.T) {
	n := quota.LimitName{Namespace: "n", Limit: "l"}
	r := withSecond(t, limit(n, 20, quota.Hard))
	r.check(n, "k", 1)
	r.answer(r.collect(), quota.GrantEntry{Tokens: 10 * tokens, Rate: 10 * tokens, Cap: 10 * tokens, Level: 20 * tokens})
	b := r.bucketOf(n, "k")
	r.interrupted(n, 9, false, func() {
		b.lock()
		b.returnAbove(0) // as any report may
		b.unlock()
		r.now = r.now.Add(time.Second)
		b.lock()
		b.accrue(r.now)
		b.unlock()
	})
	if held := quota.Units(b.hot().held.Load()); held > 10*tokens {
		t.Errorf("%d tokens held, the cap is 10", held/tokens)
	}
}

// TestReportDuringACallOverTheEnd: a report during a call over the end of a window counts no use of the new window in the
// old one.
func TestReportDuringACallOverTheEnd(t *testing.T) {
	l := ruleOf("l", quota.Window(quota.FixedWindow, 10, time.Minute), hard)
	r := withSecond(t, l)
	begins, ends := minuteOf(start)
	r.now = ends.Add(-time.Second)
	r.check(l.LimitName, "k", 1)
	g := fourTokens(begins, ends)
	r.answer(r.collect(), g)
	r.want(l.LimitName, 1, true, quota.WhyHeld)
	r.interrupted(l.LimitName, 2, true, func() {
		r.now = ends
		r.check(l.LimitName, "k", 1)
		rep := r.collect()
		g.WindowStart, g.WindowEnd = ends, ends.Add(time.Minute)
		r.answer(rep, g)
		r.want(l.LimitName, 3, true, quota.WhyHeld)
		b := r.bucketOf(l.LimitName, "k")
		if e := b.reported(r.now, 1); e.Used != 4*tokens || e.Before != tokens {
			t.Errorf("used %d, %d of them before the window; want 4 and 1", e.Used/tokens, e.Before/tokens)
		}
	})
	b := r.bucketOf(l.LimitName, "k")
	if e := b.reported(r.now, 1); e.Used != 6*tokens || e.Before != 3*tokens {
		t.Errorf("used %d, %d of them before the window; want 6 and 3", e.Used/tokens, e.Before/tokens)
	}
}

// TestUndoAfterACut: tokens of a call that is refused after a hard limit was cut return to the leader, like all others.
func TestUndoAfterACut(t *testing.T) {
	n := quota.LimitName{Namespace: "n", Limit: "l"}
	r := withSecond(t, limit(n, 20, quota.Hard))
	r.check(n, "k", 1)
	r.answer(r.collect(), quota.GrantEntry{Tokens: 20 * tokens, Cap: 20 * tokens, Level: 20 * tokens})
	r.interrupted(n, 15, false, func() {
		r.limits(limit(n, 4, quota.Hard), limit(softName, 20, quota.Soft), limit(hardName, 20, quota.Hard))
	})
	if held := r.Held(quota.Key{LimitName: n, Key: "k"}); held > 0 {
		t.Errorf("%d tokens held", held/tokens)
	}
}
