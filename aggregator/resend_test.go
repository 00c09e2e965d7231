package aggregator

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestLostReportAfterSlowAnswers: a leader stood still, and answers quickly again. A report that is lost then is repeated
// within an interval, and not after some of the slow round trips: without a grant, callers are refused.
func TestLostReportAfterSlowAnswers(t *testing.T) {
	r := newRig(t, Config{})
	report := func() quota.Report {
		r.check(softName, "k", 1)
		return r.collect()
	}
	granted := quota.GrantEntry{Level: 10 * tokens}
	for range 5 {
		rep := report()
		r.now = r.now.Add(time.Second)
		r.answer(rep, granted)
	}
	rep := report()
	r.now = r.now.Add(time.Millisecond)
	r.answer(rep, granted)
	report() // lost
	lost := r.now
	for sent := false; !sent; r.now = r.now.Add(10 * time.Millisecond) {
		r.check(softName, "k", 1)
		for _, rep := range r.Collect(r.now) {
			sent = sent || len(rep.Entries) > 0
		}
	}
	if took := r.now.Sub(lost); took > 100*time.Millisecond {
		t.Errorf("repeated after %v", took)
	}
}
