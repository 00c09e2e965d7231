package rules

import (
	"maps"
	"slices"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// TestAnswersReported checks that what a leader has admitted counts once, alone and in a call with another limit:
// for that leader when it decides, and for the next one when the member reports it. What another limit of the call
// refuses counts nowhere.
func TestAnswersReported(t *testing.T) {
	for _, dies := range []bool{false, true} {
		for _, logged := range []bool{false, true} {
			g := newOneRange(t, 1, append(slow(), ruleOf("used-up", perHour(10), hard))...)
			k := key("precious-day", "k")
			g.take(0, key("used-up", "k"), 10)
			g.settle()
			for _, call := range [][]quota.Request{
				{ask(k.LimitName, "k", 1)},
				{ask(k.LimitName, "k", 2), ask(key("fixed", "").LimitName, "k", 1)},
				{ask(k.LimitName, "k", 3), ask(key("used-up", "").LimitName, "k", 1)},
			} {
				if ok, out := g.call(0, true, call...); ok != out[len(out)-1].Allowed || len(call) == 1 && !ok {
					t.Fatalf("%+v", out)
				}
				if logged {
					g.write()
				}
			}
			if dies {
				g.elect(slices.Collect(maps.Values(g.logged)))
			}
			g.settle()
			g.settle()
			if got := g.level(k); got != 7*tokens {
				t.Errorf("leader dies %v, log written %v: level %d after 3 of 10, want 7 tokens", dies, logged, got)
			}
			tallied := quota.Units(0)
			g.members[0].TallyAll(func(n quota.LimitName, admitted, _ quota.Units) {
				if n == k.LimitName {
					tallied += admitted
				}
			})
			if tallied != 3*tokens {
				t.Errorf("leader dies %v, log written %v: %d tallied, want 3 tokens", dies, logged, tallied)
			}
			if r, _ := g.ledger.Key(g.now, k); r.Admitted != 3 {
				t.Errorf("leader dies %v, log written %v: %d admitted, want 3", dies, logged, r.Admitted)
			}
		}
	}
}
