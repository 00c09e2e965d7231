package aggregator

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestFirstReportDatesRefunds: until a grant arrives, the reports of a hard bucket state when callers first gave tokens back,
// on the leader's clock. What they gave back after the final report of the opening before is no older than that report.
func TestFirstReportDatesRefunds(t *testing.T) {
	const behind, trip = quota.Time(time.Minute), quota.Time(10 * time.Millisecond) // of the leader's clock; the time that a grant takes
	for _, closing := range []bool{true, false} {
		r := newRig(t, Config{})
		r.limits(quota.Limit{LimitName: hardName, Rate: quota.Rate{Tokens: 1, Per: time.Hour}, Burst: 20, Ceiling: quota.Hard})
		answer := func(rep quota.Report, e quota.GrantEntry) {
			g := r.grant(rep, e)
			g.At = r.now - behind
			r.now += trip
			r.Apply(r.now, g)
		}
		r.check(hardName, "k", 1)
		rep := r.collect()
		answer(rep, quota.GrantEntry{Tokens: 8 * tokens, Cap: 8 * tokens, Level: 20 * tokens})
		r.want(hardName, 8, true, quota.WhyHeld)
		for rep = r.collect(); !rep.Entries[0].Final; rep = r.collect() {
			answer(rep, quota.GrantEntry{Level: 12 * tokens})
		}
		first := r.now
		if closing {
			r.now = r.now.Add(time.Millisecond)
			r.Refund(r.clock, hardName, "k", 3)
		}
		answer(rep, quota.GrantEntry{Level: 12 * tokens})
		if !closing {
			r.now = r.now.Add(time.Second)
			first = r.now
			r.Refund(r.clock, hardName, "k", 3)
		}
		for back := quota.Units(3); back < 6; back++ {
			e := r.collect().Entries[0]
			if e.Refunded != back*tokens || e.AccruedTo != first-behind-trip {
				t.Errorf("closing %v: %d tokens given back since %v after the first; want %d since %v before it",
					closing, e.Refunded/tokens, e.AccruedTo.Sub(first-behind), back, time.Duration(trip))
			}
			r.now = r.now.Add(time.Second)
			r.Refund(r.clock, hardName, "k", 1)
		}
	}
}
