package aggregator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// TestTryHeldAll: it decides the same checks as TryHeld, with the same results, and no others.
func TestTryHeldAll(t *testing.T) {
	keys := []string{quota.WholeKey, "k", strings.Repeat("l", 2*shortKey), "umlaut ä"}
	for i := range 3 * maxHeld {
		keys = append(keys, fmt.Sprint("key", i))
	}
	var checks []quota.Spend
	for i, k := range keys {
		checks = append(checks, quota.Spend{Key: k, Cost: int64(1 + i%3)})
	}
	held := len(checks)
	checks = append(checks, quota.Spend{Key: "nobody asked for", Cost: 1}, quota.Spend{Key: "k"}, quota.Spend{Key: "k", Cost: -1},
		quota.Spend{Key: "k", Cost: quota.MaxTokens + 1}, quota.Spend{Key: "k", Cost: quota.MaxTokens})
	all, _ := benchTable(t, keys)
	one, _ := benchTable(t, keys)
	for _, n := range []quota.LimitName{benchName, {Namespace: "of nobody", Limit: "x"}} {
		got, want := make([]quota.Decision, len(checks)), make([]quota.Decision, len(checks))
		for i := range got {
			got[i] = quota.Decision{Limit: &quota.Limit{}, Remaining: 7} // from an earlier call
		}
		all.TryHeldAll(n, checks, got)
		decided := 0
		for i, c := range checks {
			var ok bool
			if want[i], ok = one.TryHeld(n, c.Key, c.Cost); ok {
				decided++
				want[i].Limit = all.table.find(n).rule.Load().limit
			}
		}
		if n == benchName && decided != held {
			t.Fatalf("%d were decided, want %d", decided, held)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", n, got, want)
		}
	}
}

func TestTryHeldAllAllocatesNothing(t *testing.T) {
	a, _ := benchTable(t, []string{"k"})
	checks := slices.Repeat([]quota.Spend{{Key: "k", Cost: 1}}, 100)
	out := make([]quota.Decision, len(checks))
	if n := testing.AllocsPerRun(100, func() { a.TryHeldAll(benchName, checks, out) }); n != 0 || !out[99].Allowed {
		t.Errorf("%v allocations; want none", n)
	}
}
