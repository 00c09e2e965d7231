package rules

import (
	"testing"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// reserve takes tokens that can be returned later, and returns the windows from which they were
// taken.
func (g *oneRange) reserve(m int, k quota.Key, cost int64) *aggregator.Taken {
	g.t.Helper()
	c := aggregator.Call{}
	c.Reset([]quota.Request{ask(k.LimitName, k.Key, cost)}, make([]quota.Decision, 1))
	since := g.now
	if !g.decide(m, &c) {
		g.t.Fatalf("%d of %v are not reserved: %+v", cost, k, c.Out[0])
	}
	return c.Taken(since)
}

// TestReserveOfLeader checks that, for windows that leaders decide, a settled reservation returns
// its tokens to the window that they came from and to no later one. This must hold on a member that
// has only heard the answers too: a periodic window begins with a use that the member may not know
// of.
func TestReserveOfLeader(t *testing.T) {
	const per = time.Minute
	for _, tier := range []quota.Tier{quota.Window(quota.FixedWindow, 20, per), quota.Window(quota.PeriodicRefill, 20, per)} {
		for _, ceiling := range []quota.Ceiling{quota.Soft, quota.Hard} {
			for _, tc := range []struct {
				name          string
				before, first int64         // used at the start by another member; used by the same member just before
				at, rest      time.Duration // time of the reservation; time until it is settled
				want          int           // how many can be used then
			}{
				{"in its window, of a new key", 0, 0, 50 * time.Second, time.Second, 20},
				{"in its window, of one that others use", 5, 0, 50 * time.Second, time.Second, 15},
				{"in its window, of one that it uses", 0, 5, 50 * time.Second, time.Second, 15},
				{"in the next", 5, 0, 50 * time.Second, 15 * time.Second, 0},
				{"in the next, of one that it uses", 5, 1, 50 * time.Second, 15 * time.Second, 0},
				{"in the next, before a grant tells when it began", 5, 0, 58500 * time.Millisecond, 1600 * time.Millisecond, 0},
			} {
				t.Run(tier.Kind.String()+"/"+ceiling.String()+"/"+tc.name, func(t *testing.T) {
					l := ruleOf("l", tier, atLeader, func(l *quota.Limit) { l.Ceiling = ceiling })
					g := newOneRange(t, 2, l)
					k := key("l", "k")
					g.pass(time.Duration(quota.Time(per) - g.now%quota.Time(per)))
					g.take(1, k, tc.before)
					g.pass(tc.at)
					g.take(0, k, tc.first)
					taken := g.reserve(0, k, 10)
					g.pass(tc.rest)
					if tc.want == 0 && g.drain(1, k, 30) != 20 {
						t.Fatal("there is no next window")
					}
					g.members[0].RefundTaken(g.clock, l.LimitName, "k", 10, taken)
					g.settle()
					if got := g.drain(1, k, 30); got != tc.want {
						t.Errorf("%d pass; want %d", got, tc.want)
					}
				})
			}
		}
	}
}
