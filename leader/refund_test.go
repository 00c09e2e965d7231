package leader

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestRefundInFirstReport: a refund in the first reports of an opening counts as far as a hard bucket has had room for it
// since callers gave it back. The report may come late, as from behind a partition, and others may have used the full bucket
// before it came.
func TestRefundInFirstReport(t *testing.T) {
	const ms = time.Millisecond
	limit := quota.Limit{LimitName: examKey.LimitName, Ceiling: quota.Hard, Decide: quota.AtLeader}
	limit.SetFirst(quota.Tier{Rate: quota.Rate{Tokens: 10, Per: time.Second}, Burst: 20})
	limits, err := quota.NewLimits(1, []quota.Limit{limit})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		started time.Duration // when the leader started
		since   time.Duration // when the callers gave it back; 0 if unknown
		second  bool          // a report without refunds arrived before
		applied quota.Seq
		line    time.Duration // if set, the bucket is opened by the report, from a line of this time
		want    int64         // of 8 tokens
	}{
		{name: "the bucket was full since", since: 500 * ms},
		{name: "since the refund, but not since a report that came late", since: 500 * ms, second: true},
		{name: "it was not", since: 2001 * ms, want: 8},
		{name: "at an unknown time"},
		{name: "of an opening that the leader has forgotten", since: 2001 * ms, applied: 1},
		{name: "before the leader", started: 400 * ms, since: 300 * ms},
		{name: "before the line of a dropped bucket", line: 2000 * ms, since: 500 * ms},
		{name: "after it", line: 2000 * ms, since: 2001 * ms, want: 8},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var lines Lines
			if tc.line != 0 {
				at := start.Add(tc.line)
				lines = LinesOf([]quota.KeyLevel{{Key: examKey, At: at, Applied: at, FullAt: at.Add(2 * time.Second)}})
			}
			l := New(Config{}, 0, 1, "b", []quota.NodeID{"a", "b"}, limits, lines, start.Add(tc.started))
			for i, q := range []struct {
				at   time.Duration
				cost int64
			}{{400 * ms, 10}, {2000 * ms, 20}} { // full at 1400 ms, and used up at 2000 ms
				if tc.line != 0 {
					break
				}
				ask := []quota.Ask{{From: "b", Incarnation: 1, ID: quota.Seq(i + 1), Key: examKey, Cost: quota.FromTokens(q.cost)}}
				a := l.Ask(start.Add(q.at), ask)[0]
				if a.Unsaved {
					l.Checkpoint(start.Add(q.at), 1)
					l.Saved(start.Add(q.at), l.Written())
					a = l.Ask(start.Add(q.at), ask)[0]
				}
				if !a.Allowed {
					t.Fatalf("a cost of %d is refused: %v", q.cost, a.Why)
				}
			}
			now := start.Add(2200 * ms)
			e := quota.ReportEntry{Key: examKey, Epoch: 1, Refunded: 8 * quota.Token, Applied: tc.applied}
			if tc.since != 0 {
				e.AccruedTo = start.Add(tc.since)
			}
			report := func(seq quota.Seq, e quota.ReportEntry) {
				if _, err := l.Report(now, quota.Report{Term: 1, From: "a", Incarnation: 1, Seq: seq, Entries: []quota.ReportEntry{e}}); err != nil {
					t.Fatal(err)
				}
			}
			if tc.second {
				report(1, quota.ReportEntry{Key: examKey, Epoch: 1})
			}
			report(2, e)
			if k, _ := l.Key(now, examKey); k.Remaining != 2+tc.want {
				t.Errorf("%d tokens remain: 2 of them refilled, so %d of 8 came back; want %d", k.Remaining, k.Remaining-2, tc.want)
			}
		})
	}
}
