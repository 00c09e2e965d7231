package rules

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestPeekNeverCharges asks a thousand times with cost 0 through every entry point: on a fresh key,
// while tokens are held, and on a used-up key. It checks that nothing is charged.
func TestPeekNeverCharges(t *testing.T) {
	eachSlow(t, 1, func(t *testing.T, g *oneRange, l quota.Limit, k quota.Key) {
		peek := func() {
			for range 250 {
				g.members[0].TryHeld(k.LimitName, k.Key, 0)
				g.members[0].TrySimple(g.clock, k.LimitName, k.Key, 0)
				g.checkNow(0, k, 0)
				g.take(0, k, 0)
			}
			g.settle()
		}
		peek()
		if got := g.level(k); got != 10*tokens {
			t.Fatalf("level %d after peeking at a new key, want 10 tokens", got)
		}
		g.take(0, k, 3)
		g.settle()
		peek()
		if got := g.level(k); got/tokens != 7 {
			t.Errorf("level %d after taking 3 and peeking, want 7 tokens", got)
		}
		if l.Enforcement == quota.Shadow {
			return
		}
		if got := g.drain(0, k, 20); got != 7 && l.MaxDebt == 0 {
			t.Errorf("%d more tokens passed, want 7", got)
		}
		g.settle()
		left := g.level(k)
		peek()
		if got := g.level(k); got/tokens != left/tokens {
			t.Errorf("level %d after peeking at a key that is used up, want %d", got, left)
		}
	})
}

// TestPeekTellsWhatOneTokenWould checks that cost 0 gets the answer of cost 1, for every policy and
// kind, with and without a leader.
func TestPeekTellsWhatOneTokenWould(t *testing.T) {
	compare := func(t *testing.T, g *oneRange, k quota.Key, state string) {
		t.Helper()
		peek := g.take(0, k, 0)
		if one := g.take(0, k, 1); one.Allowed != peek.Allowed {
			t.Errorf("%s: a cost of 0 is told %v, %v; a cost of 1 %v, %v", state, peek.Allowed, peek.Why, one.Allowed, one.Why)
		}
	}
	states := func(t *testing.T, g *oneRange, k quota.Key, use int64) {
		t.Helper()
		compare(t, g, k, "new")
		g.settle()
		compare(t, g, k, "used a little")
		g.take(0, k, use)
		g.settle()
		for range 12 {
			compare(t, g, k, "nearly used up")
		}
		g.cut = true
		g.pass(4 * time.Second)
		compare(t, g, k, "cut off")
	}
	eachSlow(t, 1, func(t *testing.T, g *oneRange, _ quota.Limit, k quota.Key) { states(t, g, k, 4) })
	for _, p := range policies() {
		for _, use := range []int64{0, 18} {
			t.Run(fmt.Sprintf("%v, used %d", p.name, use), func(t *testing.T) {
				g := newOneRange(t, 1, ruleOf("l", quota.Tier{Rate: quota.Rate{Tokens: 1, Per: time.Minute}, Burst: 20}, p.set))
				states(t, g, key("l", "k"), use)
			})
		}
	}
	t.Run("floor, parent used up", func(t *testing.T) {
		g := newOneRange(t, 1, slow()...)
		g.take(0, key("parent", quota.WholeKey), 100)
		for range 6 {
			compare(t, g, key("floored", "k"), "parent used up")
		}
	})
}

// TestCosts checks that decisions distinguish a cost that can never pass from one that can pass
// later, and that the later one passes at the announced time.
func TestCosts(t *testing.T) {
	second := quota.Tier{Rate: quota.Rate{Tokens: 10, Per: time.Second}, Burst: 20}
	tiers := func(l *quota.Limit) {
		l.More = []quota.Tier{{Rate: quota.Rate{Tokens: 1, Per: time.Second}, Burst: 8}}
	}
	most := func(l *quota.Limit) { l.MaxCost = 7 }
	for _, tc := range []struct {
		name  string
		limit quota.Limit
		cost  int64
		why   quota.Why // of a used-up key
	}{
		{"later", ruleOf("l", second), 20, quota.WhyOverLimit},
		{"more than the burst", ruleOf("l", second), 21, quota.WhyOverBurst},
		{"as much as max_cost", ruleOf("l", second, most), 7, quota.WhyOverLimit},
		{"more than max_cost", ruleOf("l", second, most), 8, quota.WhyOverMaxCost},
		{"as much as the smallest tier", ruleOf("l", second, tiers), 8, quota.WhyOverLimit},
		{"more than the smallest tier", ruleOf("l", second, tiers), 9, quota.WhyOverBurst},
		{"limit 0", ruleOf("l", quota.Tier{Rate: second.Rate}), 1, quota.WhyOverBurst},
		{"burst and what may be reserved", ruleOf("l", second, waiting(0, time.Second)), 30, quota.WhyOverLimit},
		{"more than both", ruleOf("l", second, waiting(0, time.Second)), 31, quota.WhyOverBurst},
		{"fixed window, later", ruleOf("l", quota.Window(quota.FixedWindow, 20, time.Minute)), 20, quota.WhyOverLimit},
		{"fixed window, never", ruleOf("l", quota.Window(quota.FixedWindow, 20, time.Minute)), 21, quota.WhyOverBurst},
		{"at the leader, later", ruleOf("l", second, atLeader), 20, quota.WhyOverLimit},
		{"at the leader, never", ruleOf("l", second, atLeader), 21, quota.WhyOverBurst},
		{"largest number there is", ruleOf("l", second), math.MaxInt64, quota.WhyOverBurst},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newOneRange(t, 1, tc.limit)
			k := key("l", "k")
			g.drain(0, k, 40)
			g.settle()
			d := g.take(0, k, tc.cost)
			for d.Allowed { // refilled meanwhile
				d = g.take(0, k, tc.cost)
			}
			if d.Why != tc.why {
				t.Fatalf("a cost of %d: %v, want %v", tc.cost, d.Why, tc.why)
			}
			terminal := tc.why == quota.WhyOverBurst || tc.why == quota.WhyOverMaxCost
			if terminal != (d.RetryAfter == math.MaxInt64) {
				t.Errorf("retry after %v", d.RetryAfter)
			}
			if terminal {
				return
			}
			g.pass(d.RetryAfter + 20*time.Millisecond)
			if d := g.take(0, k, tc.cost); !d.Allowed {
				t.Errorf("after the time that it said: %v, retry after %v", d.Why, d.RetryAfter)
			}
		})
	}
}

// TestParentsThatDoNotCount checks that a cost that never fits a parent is refused as finally as
// one that never fits the limit itself, that parents that do not count are not asked, and that
// banned ones refuse.
func TestParentsThatDoNotCount(t *testing.T) {
	for _, tc := range []struct {
		name    string
		parent  quota.Limit
		cost    int64
		allowed bool
		why     quota.Why
	}{
		{"unlimited", ruleOf("parent", quota.Tier{Rate: quota.Rate{Per: time.Second}}, func(l *quota.Limit) { l.Class = quota.Unlimited }), 5, true, quota.WhyEstimate},
		{"banned", ruleOf("parent", perHour(100), func(l *quota.Limit) { l.Class = quota.Banned }), 1, false, quota.WhyBanned},
		{"off", ruleOf("parent", perHour(0), func(l *quota.Limit) { l.Enforcement = quota.Off }), 5, true, quota.WhyEstimate},
		{"in shadow", ruleOf("parent", perHour(2), func(l *quota.Limit) { l.Enforcement = quota.Shadow }), 5, true, quota.WhyEstimate},
		{"smaller than the cost", ruleOf("parent", perHour(2)), 5, false, quota.WhyOverBurst},
		{"with a smaller max_cost", ruleOf("parent", perHour(20), func(l *quota.Limit) { l.MaxCost = 3 }), 5, false, quota.WhyOverMaxCost},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newOneRange(t, 1, tc.parent, ruleOf("child", perHour(10), child("parent")))
			d := g.take(0, key("child", "k"), tc.cost)
			if d.Allowed != tc.allowed || d.Why != tc.why {
				t.Errorf("allowed %v, %v; want %v, %v", d.Allowed, d.Why, tc.allowed, tc.why)
			}
			g.settle()
			want := 10 * tokens
			if tc.allowed {
				want -= quota.FromTokens(tc.cost)
			}
			if got := g.level(key("child", "k")); got/tokens != want/tokens {
				t.Errorf("the child's level is %d, want %d", got, want)
			}
		})
	}
}

// TestRefund checks that refunded tokens can be spent again, here at once and elsewhere after the
// next report, and never beyond the burst.
func TestRefund(t *testing.T) {
	eachSlow(t, 2, func(t *testing.T, g *oneRange, l quota.Limit, k quota.Key) {
		if d := g.take(0, k, 5); !d.Allowed {
			t.Fatalf("5 of 10: %v", d.Why)
		}
		g.settle()
		g.members[0].Refund(g.clock, k.LimitName, k.Key, 3)
		g.settle()
		want := 8 * tokens
		if l.Kind == quota.Concurrency { // released, not refunded
			want = 5 * tokens
		}
		if got := g.level(k); got/tokens != want/tokens {
			t.Fatalf("the leader says %d after 5 taken and 3 refunded, want %d", got, want)
		}
		for range 10 {
			g.members[0].Refund(g.clock, k.LimitName, k.Key, 1000)
			g.settle()
		}
		if l.Kind == quota.Concurrency {
			return
		}
		if got := g.level(k); got > 10*tokens || got/tokens != 10 {
			t.Errorf("the leader says %d after refunds without end, want the burst", got)
		}
		if got := g.drain(1, k, 30); got > 10 && l.MaxDebt == 0 && l.Enforcement == quota.Enforce && l.Floor.Per == 0 {
			t.Errorf("%d passed elsewhere, more than the burst", got)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		g := newOneRange(t, 1, slow()...)
		for _, cost := range []int64{0, -5, math.MinInt64} {
			d := g.members[0].Refund(g.clock, key("bucket", "k").LimitName, "k", cost)
			if !d.Allowed || d.Remaining != 10 {
				t.Errorf("refund of %d: %+v; want what a peek says", cost, d)
			}
		}
		g.settle()
		if got := g.level(key("bucket", "k")); got != 10*tokens {
			t.Errorf("level %d", got)
		}
	})
	t.Run("concurrency is not raised", func(t *testing.T) {
		g := newOneRange(t, 1, slow()...)
		k := key("flight", "k")
		g.drain(0, k, 20)
		g.members[0].Refund(g.clock, k.LimitName, k.Key, 5)
		if d := g.take(0, k, 1); d.Allowed {
			t.Error("a refund let an eleventh in flight")
		}
	})
}

// TestCharge checks that a charge books after the fact, down to a burst below zero (or to the
// largest possible reservation, if that is more) and not a token further.
func TestCharge(t *testing.T) {
	eachSlow(t, 1, func(t *testing.T, g *oneRange, l quota.Limit, k quota.Key) {
		booked, _ := g.members[0].Charge(g.clock, k.LimitName, k.Key, 6)
		g.settle()
		if l.Kind == quota.Concurrency {
			if booked != 0 || g.level(k) != 10*tokens {
				t.Errorf("booked %d of what is in flight", booked)
			}
			return
		}
		if got := g.level(k); booked != 6 || got/tokens != 4 {
			t.Errorf("booked %d of 6, level %d; want 6 and 4 tokens", booked, got)
		}
		more, d := g.members[0].Charge(g.clock, k.LimitName, k.Key, 100)
		if more != 14 || d.Allowed && l.Enforcement == quota.Enforce && l.Floor.Per == 0 {
			t.Errorf("booked %d of 100, then allowed %v (%v); want 14, refused", more, d.Allowed, d.Why)
		}
		g.settle()
		if got := g.level(k); got < -10*tokens || got > -9*tokens {
			t.Errorf("level %d, want -10 tokens", got)
		}
		if more, _ := g.members[0].Charge(g.clock, k.LimitName, k.Key, 1); more != 0 {
			t.Errorf("booked %d more at the bound", more)
		}
	})
	t.Run("every tier is bounded", func(t *testing.T) {
		g := newOneRange(t, 1, ruleOf("l", quota.Tier{Rate: quota.Rate{Tokens: 100, Per: time.Second}, Burst: 100}, func(l *quota.Limit) {
			l.More = []quota.Tier{perHour(20)}
		}))
		booked, _ := g.members[0].Charge(g.clock, key("l", "k").LimitName, "k", 150)
		g.settle()
		if got := g.level(key("l#2", "k")); booked != 40 || got < -20*tokens {
			t.Errorf("booked %d, the second tier is at %d; want 40 and -20 tokens", booked, got)
		}
	})
	t.Run("the parent too", func(t *testing.T) {
		g := newOneRange(t, 1, ruleOf("parent", perHour(5)), ruleOf("child", perHour(50), child("parent")))
		booked, _ := g.members[0].Charge(g.clock, key("child", "k").LimitName, "k", 30)
		g.settle()
		if c, p := g.level(key("child", "k")), g.level(key("parent", "*")); booked != 30 || c/tokens != 20 || p < -5*tokens {
			t.Errorf("booked %d, child %d, parent %d; want 30, 20 and not below -5 tokens", booked, c, p)
		}
	})
}

// TestChargeOfNothing checks that a charge of zero answers like a peek.
func TestChargeOfNothing(t *testing.T) {
	g := newOneRange(t, 1, slow()...)
	for _, used := range []int64{0, -3} {
		if booked, d := g.members[0].Charge(g.clock, key("bucket", "k").LimitName, "k", used); booked != 0 || !d.Allowed || d.Remaining != 10 {
			t.Errorf("charge of %d: booked %d, %+v", used, booked, d)
		}
	}
}
