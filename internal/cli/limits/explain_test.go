package limits

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/bound"
	"github.com/quorate/quorate/internal/quota"
)

// TestExplainWhoDecides: the leader decides a limit with max_wait, as one with decide: leader. So
// explain must describe it as such, and must not suggest decide: leader.
func TestExplainWhoDecides(t *testing.T) {
	bucket := quota.Limit{Rate: quota.Rate{Tokens: 100, Per: time.Second}, Burst: 100}
	asked, waits := bucket, bucket
	asked.Decide, waits.MaxWait, waits.MaxDebt = quota.AtLeader, time.Second, 2*time.Second
	for name, tc := range map[string]struct {
		l      *quota.Limit
		leader bool
		surge  float64
	}{
		"soft":           {&bucket, false, 2*100 + 3*100*.204 + 6 + 100*.004},
		"decide: leader": {&asked, true, 0},
		"max_wait":       {&waits, true, 200}, // the debt counts
	} {
		e := explanation{c: bound.Cluster{Nodes: 3, Delay: time.Millisecond, Sync: assumedSync, Election: election}}
		e.explain(tc.l)
		if got := strings.Contains(e.Rule, "leader of the key's range decides"); got != tc.leader {
			t.Errorf("%s: %q; want the leader named: %v", name, e.Rule, tc.leader)
		}
		if got := strings.Contains(strings.Join(e.Tighter, "\n"), "decide: leader"); got == tc.leader {
			t.Errorf("%s: tighter: %q; want decide: leader offered: %v", name, e.Tighter, !tc.leader)
		}
		if got := *e.Situations[1].Worst; amount(got) != amount(tc.surge) {
			t.Errorf("%s: %v beyond in a surge; want %v", name, got, tc.surge)
		}
	}
}

// TestTierWords checks that different kinds of limits have different descriptions.
func TestTierWords(t *testing.T) {
	words := map[string]quota.Kind{}
	for _, k := range quota.Kinds() {
		tier := quota.Window(k, 10, time.Minute)
		if k == quota.CalendarWindow {
			tier = quota.Per(10, quota.Calendar{Unit: quota.Minute})
		}
		text := tierWords(&tier)
		if other, ok := words[text]; ok && k != quota.Concurrency {
			t.Errorf("%v and %v are both described as %q", other, k, text)
		}
		words[text] = k
	}
}
