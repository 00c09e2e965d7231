package aggregator

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// minuteOf returns the bounds of the minute that contains the moment.
func minuteOf(at quota.Time) (begins, ends quota.Time) {
	begins = at - at%quota.Time(time.Minute)
	return begins, begins.Add(time.Minute)
}

// fourTokens returns a grant of four tokens of a window.
func fourTokens(begins, ends quota.Time) quota.GrantEntry {
	return quota.GrantEntry{Tokens: 4 * tokens, Cap: 4 * tokens, Level: 4 * tokens, WindowStart: begins, WindowEnd: ends}
}

// hardMinute returns a rig with a hard limit of ten in each minute, and the bounds of the current one.
func hardMinute(t *testing.T) (r *rig, l quota.Limit, begins, ends quota.Time) {
	r, l = newRig(t, Config{}), ruleOf("l", quota.Window(quota.FixedWindow, 10, time.Minute), hard)
	r.limits(l)
	begins, ends = minuteOf(start)
	return r, l, begins, ends
}

// TestWindowEndsEarly: a hard window ends here before it ends at the leader. Use since the last report is reported in
// that window, not in the previous one.
func TestWindowEndsEarly(t *testing.T) {
	r, l, begins, ends := hardMinute(t)
	r.now = ends.Add(-time.Second)
	r.check(l.LimitName, "k", 1)
	rep := r.collect()
	r.now = r.now.Add(200 * time.Microsecond) // of which the grant may have taken all
	r.answer(rep, fourTokens(begins, ends))
	r.want(l.LimitName, 2, true, quota.WhyHeld)

	b, _ := r.find(key("l", "k"))
	for _, now := range []quota.Time{ends.Add(-100 * time.Microsecond), ends.Add(-1)} {
		r.now = now
		r.want(l.LimitName, 1, false, quota.WhyNotHeld)
		if e := b.reported(r.now, 1); e.Held != 0 || e.Window != begins || e.Used != 2*tokens || e.Before != 0 {
			t.Errorf("%v before the end: %d held, %d used, %d of them before the window at %d; want 2 tokens used in the one at %d",
				ends.Sub(now), e.Held, e.Used, e.Before, e.Window, begins)
		}
	}
	r.now = ends
	r.check(l.LimitName, "k", 0)
	if e := b.reported(r.now, 1); e.Window != ends || e.Before != 2*tokens {
		t.Errorf("%d used before the window at %d; want 2 tokens before the one at %d", e.Before, e.Window, ends)
	}
}

// TestWindowOfSlowGrant: after a fast leader, the first grant of the next one takes 50 ms. By its arrival the window ends
// 50 ms late here, by its report at most 50 ms early, and only the report counts. A grant that answers no report of the
// new leader is not spent.
func TestWindowOfSlowGrant(t *testing.T) {
	r, l, begins, ends := hardMinute(t)
	four := fourTokens(begins, ends)
	r.now = ends.Add(-3 * time.Second)
	r.check(l.LimitName, "k", 1)
	for range 10 {
		r.answer(r.collect(), four) // at once
		r.want(l.LimitName, 4, true, quota.WhyHeld)
		r.now = r.now.Add(100 * time.Millisecond)
	}

	r.SetLeader(0, "other", 2)
	r.now = ends.Add(-120 * time.Millisecond)
	r.check(l.LimitName, "k", 1)
	rep := r.collect()
	g := r.grant(rep, four)
	g.From = "other"
	unasked := g
	unasked.Entries = []quota.GrantEntry{g.Entries[0]}
	unasked.Entries[0].Ack = 0
	r.now = r.now.Add(50 * time.Millisecond)
	r.Apply(r.now, unasked)
	r.want(l.LimitName, 1, false, quota.WhyOverLimit)
	g.Entries[0].Seq++
	r.Apply(r.now, g)
	r.now = ends.Add(-2 * time.Millisecond)
	r.want(l.LimitName, 1, true, quota.WhyHeld)
	r.now = ends
	r.want(l.LimitName, 1, false, quota.WhyNotHeld)
}

// TestWindowOfRestartedLeader: the leader restarts with its clock 40 ms ahead, and leads again. Its first grant takes 50 ms, so
// its clock may also be as before. The window ends by the clock that it has now.
func TestWindowOfRestartedLeader(t *testing.T) {
	r, l, begins, ends := hardMinute(t)
	r.now = ends.Add(-time.Second)
	r.check(l.LimitName, "k", 1)
	r.answer(r.collect(), fourTokens(begins, ends)) // at once
	r.want(l.LimitName, 4, true, quota.WhyHeld)

	r.SetLeader(0, "a", 2)
	r.now = ends.Add(-120 * time.Millisecond)
	r.check(l.LimitName, "k", 1)
	g := r.grant(r.collect(), fourTokens(begins, ends))
	g.At = r.now.Add(40 * time.Millisecond)
	r.now = r.now.Add(50 * time.Millisecond)
	r.Apply(r.now, g)
	r.want(l.LimitName, 1, true, quota.WhyHeld)
	r.now = ends.Add(-39 * time.Millisecond)
	r.want(l.LimitName, 1, false, quota.WhyNotHeld)
}

// TestWindowOfSteeredClock: the leader's clock is steered after the last grant, so the window ends earlier than it seemed
// then.
func TestWindowOfSteeredClock(t *testing.T) {
	r, l, begins, ends := hardMinute(t)
	r.now = ends.Add(-time.Second)
	r.check(l.LimitName, "k", 1)
	rep := r.collect()
	at := r.now
	r.answer(rep, fourTokens(begins, ends))
	r.want(l.LimitName, 1, true, quota.WhyHeld)
	r.now = ends.Add(-ends.Sub(at) / 110) // the leader, 1 % faster, is in the next window since ends - 1 s/101
	r.want(l.LimitName, 1, false, quota.WhyNotHeld)
}

// TestRefundWhileClosing: a refund after the final report of a key begins its next epoch, unless the window ends
// before.
func TestRefundWhileClosing(t *testing.T) {
	const per = time.Minute
	for _, next := range []bool{false, true} {
		r := newRig(t, Config{})
		l := ruleOf("l", quota.Window(quota.FixedWindow, 10, per), hard)
		r.limits(l)
		begins := quota.Time(per) * (start / quota.Time(per))
		r.now = begins.Add(per - 10*time.Second)
		r.check(l.LimitName, "k", 1)
		told := quota.GrantEntry{Tokens: 4 * tokens, Cap: 4 * tokens, Level: 4 * tokens, WindowStart: begins, WindowEnd: begins.Add(per)}
		r.answer(r.collect(), told)
		r.want(l.LimitName, 4, true, quota.WhyHeld)
		told.Tokens, told.Cap = 0, 0
		rep := r.collect()
		for !rep.Entries[0].Final {
			r.answer(rep, told)
			rep = r.collect()
		}
		r.Refund(r.clock, l.LimitName, "k", 4)
		want := 4 * tokens
		if next {
			want, r.now = 0, begins.Add(per+time.Second)
			told.WindowStart, told.WindowEnd = begins.Add(per), begins.Add(2*per)
		}
		r.answer(rep, told)
		b, _ := r.find(key("l", "k"))
		if e := b.reported(r.now, 1); e.Refunded != want {
			t.Errorf("closed in the next window %v: %d refunded, want %d", next, e.Refunded, want)
		}
	}
}

// reported returns the counts in the next report of b.
func (b *bucket) reported(now quota.Time, term quota.Term) (e quota.ReportEntry) {
	b.fillEntry(&e, now, &route{term: term})
	return e
}

// TestPeriodBeginsAnew: a leader that has not received a use yet reports a later start of the same period. Use since
// the earlier start counts in it, held tokens stay, and refunds count.
func TestPeriodBeginsAnew(t *testing.T) {
	const per = time.Minute
	for _, c := range []quota.Ceiling{quota.Soft, quota.Hard} {
		t.Run(c.String(), func(t *testing.T) {
			r := newRig(t, Config{})
			l := ruleOf("l", quota.Window(quota.PeriodicRefill, 10, per), func(l *quota.Limit) { l.Ceiling = c })
			r.limits(l)
			b := func() *bucket { b, _ := r.find(key("l", "k")); return b }
			told := func(begins quota.Time, more quota.Units) quota.GrantEntry {
				return quota.GrantEntry{Tokens: more, Cap: 10 * tokens, Level: 10 * tokens, WindowStart: begins, WindowEnd: begins.Add(per)}
			}
			r.check(l.LimitName, "k", 0)
			first := r.now
			r.answer(r.collect(), told(first, 2*tokens))
			r.want(l.LimitName, 2, true, quota.WhyHeld)
			rep := r.collect()
			pushed := rep
			pushed.Seq = 0 // answers nothing
			r.answer(pushed, told(first, 3*tokens))
			before := r.now
			r.want(l.LimitName, 1, true, quota.WhyHeld) // its leader receives the two, and not yet this one
			taken := &Taken{At: before, windows: []takenIn{{b().entry, "k", b().win}}}
			r.now = r.now.Add(time.Millisecond)
			begins := r.now
			r.answer(rep, told(begins, 0))
			if e := b().reported(r.now, 1); e.Window != begins || e.Used != 3*tokens || e.Before != 0 || e.Held != 2*tokens {
				t.Errorf("%d used, %d of them before the window at %d, %d held; want 3, 0 and 2 tokens, in the one at %d", e.Used, e.Before, e.Window, e.Held, begins)
			}
			r.RefundTaken(r.clock, l.LimitName, "k", 1, taken)
			if e := b().reported(r.now, 1); e.Refunded != tokens {
				t.Errorf("%d refunded in the period it was taken in, want a token", e.Refunded)
			}
		})
	}
}

// TestPeriodEndsEarly: use in a hard period that ends here before it ends at the leader belongs to it until it has
// ended there too; later use belongs to the next.
func TestPeriodEndsEarly(t *testing.T) {
	const per = time.Minute
	r := newRig(t, Config{})
	l := ruleOf("l", quota.Window(quota.PeriodicRefill, 10, per), hard)
	r.limits(l)
	r.check(l.LimitName, "k", 1)
	rep := r.collect()
	r.now = r.now.Add(200 * time.Microsecond) // of which the grant may have taken all
	begins := r.now
	r.answer(rep, quota.GrantEntry{Tokens: 4 * tokens, Cap: 4 * tokens, Level: 4 * tokens, WindowStart: begins, WindowEnd: begins.Add(per)})
	b, _ := r.find(key("l", "k"))
	b.lease = begins.Add(2 * per)
	r.want(l.LimitName, 2, true, quota.WhyHeld)
	ends := b.since.Add(per)
	for _, at := range []quota.Time{ends.Add(-100 * time.Microsecond), ends.Add(-1)} {
		r.now = at
		r.want(l.LimitName, 1, false, quota.WhyNotHeld)
		if e := b.reported(r.now, 1); e.Held != 0 || e.Window != begins || e.Used != 2*tokens || e.Before != 0 {
			t.Errorf("%v before the end: %d held, %d used, %d of them before the window at %d; want 2 tokens used in the one at %d", ends.Sub(at), e.Held, e.Used, e.Before, e.Window, begins)
		}
	}
	r.now = ends
	r.check(l.LimitName, "k", 0)
	if e := b.reported(r.now, 1); e.Window != begins.Add(per) || e.Before != 2*tokens {
		t.Errorf("%d used before the window at %d; want 2 tokens before the one at %d", e.Before, e.Window, begins.Add(per))
	}
}
