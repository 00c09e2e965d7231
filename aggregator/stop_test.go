package aggregator

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestStop checks that a process that stops returns what it holds of each key with its next report, that a key closes
// unless clients hold tokens of it, also if it is used after that, and that the process has stopped once the leader has
// answered.
func TestStop(t *testing.T) {
	for _, ceiling := range []quota.Ceiling{quota.Soft, quota.Hard} {
		n := quota.LimitName{Namespace: "n", Limit: "l"}
		r := withSecond(t, limit(n, 20, ceiling))
		grant := quota.GrantEntry{Tokens: 10 * tokens, Cap: 10 * tokens, Level: 20 * tokens}
		for _, k := range []string{"used", "lent"} {
			r.check(n, k, 1)
			r.answer(r.collect(), grant)
		}
		lent := r.Allocate(r.clock, quota.Key{LimitName: n, Key: "lent"}, AllocationRequest{Tokens: 4 * tokens})
		if lent.Tokens != 4*tokens {
			t.Fatalf("%v: lent %+v", ceiling, lent)
		}
		r.now = r.now.Add(time.Second)
		r.Stop(r.now)
		used := quota.Units(0)
		if ceiling == quota.Soft { // under hard, the checks are refused
			used = tokens
		}
		last := map[string]quota.ReportEntry{}
		for _, again := range []bool{false, true} {
			for rounds := 0; !r.Stopped(); rounds++ {
				if rounds == 3 {
					t.Fatalf("%v, used again %v: it has not stopped after three answers", ceiling, again)
				}
				rep := r.collect()
				for _, e := range rep.Entries {
					last[e.Key.Key] = e
				}
				r.answer(rep, quota.GrantEntry{Level: 20 * tokens})
			}
			if e := last["used"]; !e.Final || e.Held != 0 || e.Used+e.Overdrawn != used {
				t.Errorf("%v, used again %v: last report: final %v, %d used, %d held; want %d used and none held", ceiling, again, e.Final, e.Used+e.Overdrawn, e.Held, used)
			}
			if e := last["lent"]; e.Final || e.Held != 4*tokens {
				t.Errorf("%v: last report of the lent key: final %v, %d held; want the 4 lent", ceiling, e.Final, e.Held)
			}
			if again {
				break
			}
			if d := r.check(n, "used", 1); d.Allowed != (used > 0) || r.Stopped() {
				t.Errorf("%v: used again: %+v; stopped %v", ceiling, d, r.Stopped())
			}
		}
	}
}
