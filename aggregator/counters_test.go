package aggregator

import (
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// TestFullCountersRestart checks that a key whose counters are nearly full begins a new epoch, in which they count from
// 0. Otherwise no further refusal would reach the leader.
func TestFullCountersRestart(t *testing.T) {
	const cost, checks = quota.MaxTokens / 4, 40
	r := newRig(t, Config{})
	r.limits(limit(softName, quota.MaxTokens, quota.Soft))
	refused, counted := 0, int64(0) // by the member; by its reports
	var last quota.ReportEntry
	for range checks {
		if !r.check(softName, "k", cost).Allowed {
			refused++
		}
		rep := r.collect()
		e := rep.Entries[0]
		if e.Epoch != last.Epoch {
			last = quota.ReportEntry{}
		}
		counted += (e.Refused - last.Refused).Tokens() / cost
		last = e
		r.answer(rep, quota.GrantEntry{Closed: e.Final})
	}
	if refused < checks/2 || counted != int64(refused) {
		t.Errorf("the reports have %d of %d refusals of %d tokens", counted, refused, cost)
	}
}
