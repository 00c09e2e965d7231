package rules

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// tenth is a bucket of 10/s with a burst of 5.
var tenth = quota.Tier{Rate: quota.Rate{Tokens: 10, Per: time.Second}, Burst: 5}

func (g *oneRange) wait(m int, k quota.Key, cost int64, most time.Duration) quota.Decision {
	g.t.Helper()
	r := ask(k.LimitName, k.Key, cost)
	r.MaxWait = most
	_, out := g.call(m, false, r)
	return out[0]
}

// TestWaitsAreReservedInOrder checks that later callers wait behind earlier ones at any member, to
// the nanosecond, with a leader and on the estimate.
func TestWaitsAreReservedInOrder(t *testing.T) {
	for _, cut := range []bool{false, true} {
		g := newOneRange(t, 2, ruleOf("l", tenth, waiting(6*time.Second, 10*time.Second)))
		k := key("l", "k")
		g.take(0, k, 0)
		g.take(1, k, 0)
		g.pass(500 * time.Millisecond)
		if g.cut = cut; cut {
			g.pass(4 * time.Second)
		}
		began, m := g.now, 0
		if d := g.wait(0, k, 49, quota.LimitsWait); !d.Allowed || d.Wait != 0 { // a burst and 4.4s of debt
			t.Fatalf("cut off %v: the first: allowed %v (%v), waits %v", cut, d.Allowed, d.Why, d.Wait)
		}
		if !cut {
			m = 1 // this member asks the leader, because it knows of only 5
		}
		if d := g.wait(m, k, 6, quota.LimitsWait); !d.Allowed || d.Wait != 4400*time.Millisecond-g.now.Sub(began) {
			t.Fatalf("cut off %v: the second: allowed %v (%v), waits %v", cut, d.Allowed, d.Why, d.Wait)
		}
		for i := range 11 {
			d := g.wait(m, k, 1, quota.LimitsWait)
			want := 5*time.Second + time.Duration(i)*100*time.Millisecond - g.now.Sub(began)
			if !d.Allowed || d.Wait != want || d.Why != quota.WhyReserved {
				t.Errorf("cut off %v: caller %d: allowed %v (%v), waits %v; want %v", cut, i, d.Allowed, d.Why, d.Wait, want)
			}
			if !cut {
				m = 1 - m
				g.sync()
			}
		}
		d := g.wait(m, k, 1, quota.LimitsWait)
		if retry := 100*time.Millisecond - g.now.Sub(began); d.Allowed || d.Why != quota.WhyWaitTooLong || d.RetryAfter != retry {
			t.Errorf("cut off %v: beyond max_wait: allowed %v, %v, retry after %v; want wait_too_long, %v", cut, d.Allowed, d.Why, d.RetryAfter, retry)
		}
	}
}

// TestRequestOnlyLowersTheWait checks that a request with a longer wait than the limit's gets the
// limit's.
func TestRequestOnlyLowersTheWait(t *testing.T) {
	for _, tc := range []struct {
		most    time.Duration
		allowed bool
	}{
		{quota.LimitsWait, true},
		{time.Second, true},
		{time.Hour, true},
		{500 * time.Millisecond, true},
		{499 * time.Millisecond, false},
		{0, false},
	} {
		for _, cut := range []bool{false, true} {
			g := newOneRange(t, 1, ruleOf("l", tenth, waiting(time.Second, 2*time.Second)))
			k := key("l", "k")
			g.take(0, k, 0)
			g.pass(500 * time.Millisecond)
			if g.cut = cut; cut {
				g.pass(4 * time.Second)
			}
			g.wait(0, k, 10, quota.LimitsWait) // 5 of them are debt: half a second
			if d := g.wait(0, k, 1, tc.most); d.Allowed != tc.allowed || d.Allowed && d.Wait != 500*time.Millisecond {
				t.Errorf("at most %v, cut off %v: allowed %v, waits %v (%v)", tc.most, cut, d.Allowed, d.Wait, d.Why)
			}
		}
	}
	g := newOneRange(t, 1, ruleOf("l", tenth, waiting(200*time.Millisecond, 2*time.Second)))
	g.wait(0, key("l", "k"), 10, time.Hour)
	if d := g.wait(0, key("l", "k"), 1, time.Hour); d.Allowed {
		t.Errorf("a request raised max_wait of 200ms to %v", d.Wait)
	}
}

// TestRefusedCallGivesBack checks that the leader gets back what it admitted for a call that
// another limit then refused.
func TestRefusedCallGivesBack(t *testing.T) {
	for _, l := range []string{"precious", "precious-hard", "debtor"} {
		g := newOneRange(t, 2, append(slow(), ruleOf("debtor", perHour(10), waiting(10*time.Hour, 10*time.Hour)), ruleOf("used", perHour(1), atLeader))...)
		g.take(1, key("used", "k"), 1)
		k := key(l, "k")
		cost := int64(4)
		if l == "debtor" { // so that the leader must be asked
			g.take(0, k, 9)
			g.settle()
		}
		g.asked = 0
		before := g.level(k)
		ok, out := g.call(0, false, ask(k.LimitName, "k", cost), ask(key("used", "").LimitName, "k", 1))
		if ok || out[1].Why != quota.WhyOverLimit {
			t.Fatalf("%s: ok %v, %+v", l, ok, out)
		}
		if g.asked == 0 {
			t.Fatalf("%s: nobody was asked", l)
		}
		g.settle()
		if after := g.level(k); after/tokens != before/tokens {
			t.Errorf("%s: level %d before and %d after a refused call", l, before, after)
		}
	}
}

// TestDecideLeader checks that with decide: leader the limit is exact at every member, and that
// without a leader the policy decides.
func TestDecideLeader(t *testing.T) {
	g := newOneRange(t, 10, ruleOf("l", perHour(3), atLeader))
	k := key("l", "k")
	passed := 0
	for i := range 30 {
		if d := g.take(i%10, k, 1); d.Allowed {
			if passed++; d.Why != quota.WhyLeader {
				t.Errorf("passed: %v", d.Why)
			}
		} else if d.Why != quota.WhyOverLimit || d.RetryAfter <= 0 {
			t.Errorf("refused: %v, retry after %v", d.Why, d.RetryAfter)
		}
	}
	if passed != 3 || g.asked != 30 {
		t.Errorf("%d passed on ten members, %d questions; want 3 and 30", passed, g.asked)
	}

	for _, p := range policies() {
		g := newOneRange(t, 2, ruleOf("l", perHour(20), p.set, atLeader))
		if d := g.take(0, k, 5); !d.Allowed || d.Why != quota.WhyLeader {
			t.Fatalf("%s: with a leader: %v", p.name, d.Why)
		}
		g.pass(500 * time.Millisecond)
		g.cut = true
		g.pass(4 * time.Second)
		d := g.take(0, k, 1)
		if d.Allowed != (p.passes > 0) || d.Allowed && d.Why != p.why || !d.Allowed && d.Why != p.no {
			t.Errorf("%s: nobody can be asked: allowed %v, %v; want %v or %v", p.name, d.Allowed, d.Why, p.why, p.no)
		}
	}
}

// TestAskedBeforeTold checks that a new leader that gets a question before it has the members'
// reports still learns what its predecessor knew.
func TestAskedBeforeTold(t *testing.T) {
	for _, l := range []string{"precious", "waits"} {
		g := newOneRange(t, 1, slow()...)
		k := key(l, "k")
		g.drain(0, k, 10)
		g.pass(300 * time.Millisecond)
		g.cut = true // reports to the new leader are lost; its log is empty
		g.elect(nil)
		g.cut = false
		g.take(0, k, 1)
		g.settle()
		if got := g.level(k); got > quota.Token {
			t.Errorf("%s: the new leader says %d of a key that was used up", l, got)
		}
	}
}
