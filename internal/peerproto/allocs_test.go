package peerproto

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// TestReportAllocates checks that each key adds at most one allocation to the cost of a report. It
// counts allocations, which are the same on every machine.
func TestReportAllocates(t *testing.T) {
	report := func(keys int) *quota.Report {
		r := &quota.Report{Term: 1, From: "a", Incarnation: 1, Seq: 1}
		for i := range keys {
			r.Entries = append(r.Entries, quota.ReportEntry{
				Key:   quota.Key{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Key: fmt.Sprintf("tenant-%d", i)},
				Epoch: 1, Used: quota.Token, Held: quota.Token, Unreported: quota.Token,
			})
		}
		return r
	}
	few, many := report(10), report(110)
	allocs := func(r *quota.Report) float64 { return testing.AllocsPerRun(100, func() { EncodeReport(r) }) }
	if perKey := (allocs(many) - allocs(few)) / 100; perKey > 1.1 {
		t.Errorf("%.2f allocations for each key of a report; want at most one", perKey)
	}
}
