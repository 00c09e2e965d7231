package sim

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestPresumedUse checks that a short burst at one node refuses nobody at another while the level
// covers the cost: what the burst's node might have used since its report is only presumed. Of a limit
// of 1/s, burst 100, the second node once refused 75 of 320 requests with half of the limit left, told
// 0 as remaining, and 180 s as the time to retry after.
func TestPresumedUse(t *testing.T) {
	for _, nodes := range []int{2, 3, 5} {
		for _, gap := range []time.Duration{0, 2 * time.Millisecond} {
			l := limit(1, 100, quota.Soft)
			var at []Request
			for i := range 10 {
				at = append(at, Request{At: time.Second + time.Duration(i)*gap, Key: "k", Node: 1, Cost: 1})
			}
			for i := range 40 {
				at = append(at, Request{At: 1100*time.Millisecond + time.Duration(i)*15*time.Millisecond, Key: "k", Node: 2, Cost: 1})
			}
			least, refused := int64(100), 0
			Run(Scenario{
				Seed: 1, Nodes: nodes, Sync: 100 * time.Millisecond, Delay: time.Millisecond, Hop: 20 * time.Millisecond, Limit: l, Skew: -1,
				Requests: func(yield func(Request) bool) {
					for _, q := range at {
						if !yield(q) {
							return
						}
					}
				},
				Decided: func(_ time.Duration, _ int, _ string, d quota.Decision, _ bool) {
					if !d.Allowed {
						refused++
					}
					least = min(least, d.Remaining)
				},
			})
			if refused > 0 || least < 49 {
				t.Errorf("%d nodes, %v apart: %d of 50 refused, and %d told as remaining; want none, and 50", nodes, gap, refused, least)
			}
		}
	}
}
