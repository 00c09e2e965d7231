package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestUsedUpKeyIsAnnounced checks that nodes refuse a key that others have used up at the first check
// that they get, without asking: nodes that never saw the key, and one that has restarted since.
func TestUsedUpKeyIsAnnounced(t *testing.T) {
	for _, ceiling := range []quota.Ceiling{quota.Soft, quota.Hard} {
		for _, kind := range []quota.Kind{quota.TokenBucket, quota.FixedWindow, quota.SlidingWindow} {
			for _, decide := range []quota.Decide{quota.Auto, quota.Locally} {
				t.Run(fmt.Sprintf("%v/%v/%v", ceiling, kind, decide), func(t *testing.T) {
					l := limit(1, 100, ceiling)
					l.Rate = quota.Rate{Tokens: 100, Per: time.Hour}
					l.Kind, l.Decide = kind, decide
					const nodes, restarted = 10, 2
					var at []Request
					for i := range 300 { // at the first three
						at = append(at, Request{At: time.Second + time.Duration(i)*10*time.Millisecond, Key: "k", Node: i%3 + 1, Cost: 1})
					}
					late := at[len(at)-1].At + 3*time.Second
					for n := range nodes {
						at = append(at, Request{At: late + time.Duration(n)*time.Millisecond, Key: "k", Node: n + 1, Cost: 1})
					}
					early := 0
					Run(Scenario{
						Seed: 1, Nodes: nodes, Sync: 100 * time.Millisecond, Delay: time.Millisecond, Hop: 20 * time.Millisecond, Limit: l, Skew: -1,
						Requests: slices.Values(at),
						Faults:   []Fault{{At: late - 2*time.Second, Kind: Kill, Nodes: []int{restarted}, For: time.Second}},
						Decided: func(now time.Duration, n int, _ string, d quota.Decision, _ bool) {
							switch {
							case now < late && d.Allowed:
								early++
							case now >= late && (d.Allowed || d.Why != quota.WhyOverLimit || now != late+time.Duration(n-1)*time.Millisecond):
								t.Errorf("node %d: %v, allowed %v, after %v; want a refusal at once", n, d.Why, d.Allowed, now-late-time.Duration(n-1)*time.Millisecond)
							}
						},
					})
					if early < 95 {
						t.Errorf("%d of 100 admitted before: the key is not used up", early)
					}
				})
			}
		}
	}
}
