package leader

import (
	"math"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestLiveErrors: what counts as over-admitted, and what does not, for a member that reports after
// a second, with a bucket of 10 and almost no refill.
func TestLiveErrors(t *testing.T) {
	const token = quota.Token
	for name, tc := range map[string]struct {
		limit        func(l *quota.Limit)
		entry        quota.ReportEntry
		over, cutOff float64
	}{
		"within":    {entry: quota.ReportEntry{Overdrawn: 10 * token}},
		"beyond":    {entry: quota.ReportEntry{Overdrawn: 13 * token}, over: 3},
		"charged":   {entry: quota.ReportEntry{Overdrawn: 13 * token, Charged: 13 * token}},
		"part of":   {entry: quota.ReportEntry{Overdrawn: 13 * token, Charged: token}, over: 2},
		"cut off":   {entry: quota.ReportEntry{Overdrawn: 13 * token, Alone: 2 * token}, over: 1, cutOff: 2},
		"refunded":  {entry: quota.ReportEntry{Overdrawn: 13 * token, Refunded: 2 * token}, over: 1},
		"agreed to": {limit: func(l *quota.Limit) { l.MaxDebt = 24 * time.Hour }, entry: quota.ReportEntry{Overdrawn: 11 * token}},
	} {
		l := quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Rate: quota.Rate{Tokens: 1, Per: 24 * time.Hour}, Burst: 10}
		if tc.limit != nil {
			tc.limit(&l)
		}
		limits, err := quota.NewLimits(1, []quota.Limit{l})
		if err != nil {
			t.Fatal(err)
		}
		now := quota.Time(time.Hour)
		g := New(Config{}, 0, 1, "a", []quota.NodeID{"a"}, limits, nil, now)
		report := func(seq quota.Seq, e quota.ReportEntry) {
			e.Key, e.Epoch = quota.Key{LimitName: l.LimitName, Key: "k"}, 1
			e.Unreported = e.Used + e.Overdrawn
			if _, err := g.Report(now, quota.Report{Term: 1, From: "a", Incarnation: 1, Seq: seq, Entries: []quota.ReportEntry{e}}); err != nil {
				t.Fatal(err)
			}
		}
		report(1, quota.ReportEntry{})
		now = now.Add(time.Second)
		report(2, tc.entry)
		report(3, tc.entry) // counters are cumulative: nothing new
		var got quota.LiveError
		g.LiveErrors(func(_ quota.LimitName, e *quota.LiveError) { got = *e })
		if near := func(u quota.Units, want float64) bool { return math.Abs(float64(u)/float64(token)-want) < .02 }; !near(got.OverAdmitted, tc.over) || !near(got.CutOff, tc.cutOff) {
			t.Errorf("%s: over-admitted %v, cut off %v units; want %v and %v tokens", name, got.OverAdmitted, got.CutOff, tc.over, tc.cutOff)
		}
		if got.Admitted != tc.entry.Overdrawn || got.Gap != time.Second {
			t.Errorf("%s: admitted %v, gap %v; want %v, and a second", name, got.Admitted, got.Gap, tc.entry.Overdrawn)
		}
		g.SetLimits(now, &quota.Limits{})
		g.LiveErrors(func(n quota.LimitName, _ *quota.LiveError) { t.Errorf("%s: %v is gone and still counted", name, n) })
	}
}
