package rules

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

type policy struct {
	name string
	set  func(*quota.Limit)
	// Results on a node that was cut off a lease ago and had used 5 of 20: how many requests pass
	// at once, why they pass, and why the next is refused.
	passes  int
	why, no quota.Why
}

func cutOff(p quota.CutOffPolicy) func(*quota.Limit) {
	return func(l *quota.Limit) { l.CutOff.Policy = p }
}

// policies returns every value of when_cut_off, for a limit of 1/m with a burst of 20.
func policies() []policy {
	rate := func(l *quota.Limit) {
		l.CutOff = quota.CutOff{Policy: quota.CutOffRate, Rate: quota.Rate{Tokens: 30, Per: time.Hour}}
	}
	hardAnd := func(p quota.CutOffPolicy) func(*quota.Limit) {
		return func(l *quota.Limit) { l.Ceiling, l.CutOff.Policy = quota.Hard, p }
	}
	return []policy{
		{"default", cutOff(quota.CutOffDefault), 15, quota.WhyLocal, quota.WhyOverLimit},
		{"local", cutOff(quota.CutOffLocal), 15, quota.WhyLocal, quota.WhyOverLimit},
		{"share", cutOff(quota.CutOffShare), 10, quota.WhyShare, quota.WhyOverLimit},
		{"hold", cutOff(quota.CutOffHold), 0, 0, quota.WhyCutOff},
		{"open", cutOff(quota.CutOffOpen), 100, quota.WhyOpen, 0},
		{"closed", cutOff(quota.CutOffClosed), 0, 0, quota.WhyCutOff},
		{"rate", rate, 10, quota.WhyFixedRate, quota.WhyOverLimit},
		{"hard", hardAnd(quota.CutOffDefault), 0, 0, quota.WhyCutOff},
		{"hard, hold", hardAnd(quota.CutOffHold), 0, 0, quota.WhyCutOff},
		{"hard, closed", hardAnd(quota.CutOffClosed), 0, 0, quota.WhyCutOff},
		{"share, then closed", func(l *quota.Limit) {
			l.CutOff = quota.CutOff{Policy: quota.CutOffShare, After: 500 * time.Millisecond, Then: quota.CutOffClosed}
		}, 0, 0, quota.WhyCutOff},
		{"closed, then a rate", func(l *quota.Limit) {
			l.CutOff = quota.CutOff{
				Policy: quota.CutOffClosed, After: 500 * time.Millisecond,
				Then: quota.CutOffRate, ThenRate: quota.Rate{Tokens: 15, Per: time.Hour},
			}
		}, 5, quota.WhyFixedRate, quota.WhyOverLimit},
		{"closed, later open", func(l *quota.Limit) {
			l.CutOff = quota.CutOff{Policy: quota.CutOffClosed, After: time.Hour, Then: quota.CutOffOpen}
		}, 0, 0, quota.WhyCutOff},
	}
}

// TestWhenCutOff checks that every policy does what it promises and reports it, and that the
// admissions of the cut-off time are booked exactly once when the leader is back.
func TestWhenCutOff(t *testing.T) {
	for _, p := range policies() {
		t.Run(p.name, func(t *testing.T) {
			g := newOneRange(t, 2, ruleOf("l", quota.Tier{Rate: quota.Rate{Tokens: 1, Per: time.Minute}, Burst: 20}, p.set))
			k := key("l", "k")
			// Both members use the key, so each has half of the demand.
			if n := g.drain(0, k, 5); n != 5 {
				t.Fatalf("%d of 5 passed with a leader", n)
			}
			g.pass(500 * time.Millisecond) // the key stays open
			g.cut = true
			g.pass(4 * time.Second)
			passed := 0
			for range 100 {
				d := g.take(0, k, 1)
				if !d.Allowed {
					if d.Why != p.no {
						t.Errorf("refused: %v, want %v", d.Why, p.no)
					}
					break
				}
				if passed++; d.Why != p.why {
					t.Fatalf("passed: %v, want %v", d.Why, p.why)
				}
			}
			if passed != p.passes {
				t.Errorf("%d passed, want %d", passed, p.passes)
			}
			g.cut = false
			want := 15 - int64(passed)
			if p.why == quota.WhyOpen { // admissions that nobody counts are nobody's debt
				want = 15
			}
			for range 3 {
				g.settle()
				if got := g.level(k); got < quota.FromTokens(want) || got > quota.FromTokens(want+1) {
					t.Fatalf("the leader says %d once it is back, want %d tokens", got, want)
				}
			}
		})
	}
}

// TestCutOffRateGoesOn checks that the rate of when_cut_off refills on the node.
func TestCutOffRateGoesOn(t *testing.T) {
	g := newOneRange(t, 1, ruleOf("l", quota.Tier{Rate: quota.Rate{Tokens: 100, Per: time.Second}, Burst: 100}, func(l *quota.Limit) {
		l.CutOff = quota.CutOff{Policy: quota.CutOffRate, Rate: quota.Rate{Tokens: 2, Per: time.Second}}
	}))
	k := key("l", "k")
	g.take(0, k, 1)
	g.pass(500 * time.Millisecond) // the key stays open
	g.cut = true
	g.pass(4 * time.Second)
	passed := 0
	for range 100 {
		passed += g.drain(0, k, 1000)
		g.pass(100 * time.Millisecond)
	}
	if passed < 20 || passed > 23 {
		t.Errorf("%d passed in 10s at 2/s with a burst of 2", passed)
	}
}

// TestWindowsEndWithoutALeader checks that a cut-off node ends its windows by its own clock.
func TestWindowsEndWithoutALeader(t *testing.T) {
	for _, kind := range []quota.Kind{quota.FixedWindow, quota.PeriodicRefill, quota.SlidingWindow} {
		g := newOneRange(t, 1, ruleOf("l", quota.Window(kind, 10, 10*time.Second)))
		k := key("l", "k")
		g.drain(0, k, 20)
		g.pass(500 * time.Millisecond) // the key stays open
		g.cut = true
		g.pass(4 * time.Second)
		g.drain(0, k, 20)
		g.pass(20 * time.Second)
		if got := g.drain(0, k, 30); got != 10 {
			t.Errorf("%v: %d passed two windows later, want 10", kind, got)
		}
	}
}

// TestInFlightWithoutALeader checks that releases count during a cut, and that "local" allows the
// whole limit on this node.
func TestInFlightWithoutALeader(t *testing.T) {
	for _, tc := range []struct {
		policy quota.CutOffPolicy
		most   int
		why    quota.Why
	}{{quota.CutOffLocal, 10, quota.WhyLocal}, {quota.CutOffShare, 5, quota.WhyShare}} {
		t.Run(tc.policy.String(), func(t *testing.T) {
			g := newOneRange(t, 2, ruleOf("l", quota.Tier{Kind: quota.Concurrency, Burst: 10}, cutOff(tc.policy)))
			k := key("l", "k")
			g.drain(1, k, 6)
			g.drain(0, k, 2)
			g.pass(500 * time.Millisecond) // the key stays open
			g.cut = true
			g.pass(4 * time.Second)
			if got := 2 + g.drain(0, k, 30); got != tc.most {
				t.Errorf("%d in flight, want %d", got, tc.most)
			}
			for range 20 {
				g.members[0].Release(g.clock, k.LimitName, k.Key, 1, nil)
				if d := g.take(0, k, 1); !d.Allowed || d.Why != tc.why {
					t.Fatalf("after a release: %v, %v", d.Allowed, d.Why)
				}
			}
			if d := g.take(0, k, 1); d.Allowed {
				t.Error("one more passed than was released")
			}
		})
	}
}
