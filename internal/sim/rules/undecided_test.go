package rules

import (
	"testing"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// TestReportDuringACall makes the member report, and receive grants, between the charge of one limit and the
// refusal by another. It checks that nothing was booked of the call, for however long the call takes, and that the
// key still serves.
func TestReportDuringACall(t *testing.T) {
	usedUp := ruleOf("used-up", perHour(10), hard)
	for _, takes := range []time.Duration{10 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second, 20 * time.Second} {
		for _, before := range []int64{0, 1, 3} {
			eachSlow(t, 1, func(t *testing.T, g *oneRange, l quota.Limit, k quota.Key) {
				g.limits(append(slow(), usedUp)...)
				g.take(0, key("used-up", "k"), 10)
				g.settle()
				if before > 0 {
					g.take(0, k, before)
				}
				if before == 3 {
					g.settle()
				}
				var c aggregator.Call
				c.Reset([]quota.Request{ask(k.LimitName, k.Key, 2), ask(usedUp.LimitName, "k", 1)}, make([]quota.Decision, 2))
				c.Acquires, c.Final = true, true
				clock := func() quota.Time {
					g.pass(takes)
					return g.now
				}
				for g.members[0].Decide(clock, &c); c.Need == aggregator.Leader; g.members[0].Decide(clock, &c) {
					c.Answer(g.ask(c.Ask))
				}
				if c.Out[1].Allowed {
					t.Fatalf("the used-up limit admits: %+v", c.Out)
				}
				g.settle()
				g.settle()
				r, _ := g.ledger.Key(g.now, k)
				if want := 10 - before; r.Remaining != want || r.Admitted != before {
					t.Errorf("%v, %d before: %d remain and %d were admitted, want %d and %d", takes, before, r.Remaining, r.Admitted, want, before)
				}
				if d := g.take(0, k, 2); !d.Allowed {
					t.Errorf("%v, %d before: the key refuses afterwards: %+v", takes, before, d)
				}
			})
		}
	}
}
