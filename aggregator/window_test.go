package aggregator

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestWindowEndsEarly: a hard window ends here before it does at the leader. What was
// used in it since the last report is told as of it, not of the one before.
func TestWindowEndsEarly(t *testing.T) {
	r := newRig(t, Config{})
	l := ruleOf("l", quota.Window(quota.FixedWindow, 10, time.Minute), hard)
	r.limits(l)
	begins := quota.Time(time.Minute) * (start / quota.Time(time.Minute))
	ends := begins.Add(time.Minute)
	r.now = ends.Add(-time.Second)
	r.check(l.LimitName, "k", 1)
	r.answer(r.collect(), quota.GrantEntry{Tokens: 4 * tokens, Cap: 4 * tokens, Level: 4 * tokens, WindowStart: begins, WindowEnd: ends})
	r.want(l.LimitName, 2, true, quota.WhyHeld)

	b, _ := r.find(key("l", "k"))
	for _, now := range []quota.Time{ends.Add(-100 * time.Microsecond), ends.Add(-1)} { // no way is held to take less than 200 us
		r.now = now
		r.want(l.LimitName, 1, false, quota.WhyNotHeld)
		if e := b.entry(r.now, 1); e.Held != 0 || e.Window != begins || e.Used != 2*tokens || e.Before != 0 {
			t.Errorf("%v before the end: %d held, %d used, %d of them before the window at %d; want 2 tokens used in the one at %d",
				ends.Sub(now), e.Held, e.Used, e.Before, e.Window, begins)
		}
	}
	r.now = ends
	r.check(l.LimitName, "k", 0)
	if e := b.entry(r.now, 1); e.Window != ends || e.Before != 2*tokens {
		t.Errorf("%d used before the window at %d; want 2 tokens before the one at %d", e.Before, e.Window, ends)
	}
}

// entry is what b says in a report.
func (b *bucket) entry(now quota.Time, term quota.Term) (e quota.ReportEntry) {
	b.fill(&e, now, term)
	return e
}
