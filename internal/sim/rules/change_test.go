package rules

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

const day = 24 * time.Hour

// days are kinds that admit burst at once, and next to nothing more during a test.
var days = map[string]func(burst int64) quota.Tier{
	"bucket":   perHour,
	"fixed":    func(n int64) quota.Tier { return quota.Window(quota.FixedWindow, n, day) },
	"weekly":   func(n int64) quota.Tier { return quota.Window(quota.FixedWindow, n, 7*day) },
	"sliding":  func(n int64) quota.Tier { return quota.Window(quota.SlidingWindow, n, day) },
	"periodic": func(n int64) quota.Tier { return quota.Window(quota.PeriodicRefill, n, day) },
	"calendar": func(n int64) quota.Tier { return quota.Per(n, quota.Calendar{Unit: quota.Year}) },
}

// TestChangedKind checks that a used-up limit that changes its kind stays used up, both while the
// key is open and after it has been closed.
func TestChangedKind(t *testing.T) {
	for from := range days {
		for to := range days {
			for _, idle := range []time.Duration{0, 500 * time.Millisecond, 30 * time.Second} {
				t.Run(from+" to "+to+" after "+idle.String(), func(t *testing.T) {
					g := newOneRange(t, 1, ruleOf("l", days[from](10)))
					k := key("l", "k")
					if n := g.drain(0, k, 20); n != 10 {
						t.Fatalf("%d of 10 passed", n)
					}
					g.pass(idle)
					g.limits(ruleOf("l", days[to](10)))
					d, _, _ := g.members[0].TrySimple(g.clock, k.LimitName, k.Key, 1) // from local knowledge only
					if n := g.drain(0, k, 20); n != 0 || d.Allowed && idle > 0 {
						t.Errorf("%d passed after the change (%v)", n, d.Why)
					}
				})
			}
		}
	}
}

// TestChangedPeriod checks that a limit's window from before a change no longer counts, with a
// leader and without one.
func TestChangedPeriod(t *testing.T) {
	for _, cut := range []bool{false, true} {
		for _, idle := range []time.Duration{0, 5 * time.Second} {
			g := newOneRange(t, 1, ruleOf("l", quota.Window(quota.FixedWindow, 10, 20*time.Second)))
			g.pass(time.Second)
			k := key("l", "k")
			g.drain(0, k, 20)
			g.settle()
			g.cut = cut
			g.pass(idle)
			g.limits(ruleOf("l", days["fixed"](10)))
			g.pass(30 * time.Second)
			if n := g.drain(0, k, 20); n != 0 {
				t.Errorf("cut off %v, changed after %v: %d passed when the old window ended", cut, idle, n)
			}

			g = newOneRange(t, 1, ruleOf("l", days["bucket"](10)))
			g.drain(0, k, 20)
			g.settle()
			g.cut = cut
			g.pass(idle)
			g.limits(ruleOf("l", quota.Window(quota.FixedWindow, 10, 20*time.Second)))
			g.pass(30 * time.Second)
			if n := g.drain(0, k, 20); n != 10 {
				t.Errorf("cut off %v, changed after %v: %d passed in the first whole window, want 10", cut, idle, n)
			}
		}
	}
}

// TestRaisedAndLowered checks that a raised window admits the difference and a raised bucket only
// what its rate refills, at once and for requests at the same moment too.
func TestRaisedAndLowered(t *testing.T) {
	for _, tc := range []struct {
		kind     string
		use      int
		to       int64
		passes   int
		back     int64 // the limit then changes to this
		andAgain int
	}{
		{"fixed", 10, 15, 5, 10, 0},
		{"fixed", 7, 5, 0, 10, 3},
		{"fixed", 7, 9, 2, 30, 21},
		{"calendar", 10, 15, 5, 10, 0},
		{"sliding", 4, 8, 4, 12, 4},
		{"periodic", 7, 5, 0, 10, 3},
		{"bucket", 7, 100, 3, 10, 0},
		{"bucket", 4, 3, 3, 100, 0},
		{"bucket", 10, 3, 0, 10, 0},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			g := newOneRange(t, 1, ruleOf("l", days[tc.kind](10)))
			k := key("l", "k")
			g.drain(0, k, tc.use)
			g.settle()
			for _, step := range []struct {
				burst int64
				want  int
			}{{tc.to, tc.passes}, {tc.back, tc.andAgain}} {
				g.limits(ruleOf("l", days[tc.kind](step.burst)))
				if n := g.drain(0, k, 100); n != step.want {
					t.Errorf("used %d of 10, changed to %d: %d more passed, want %d", tc.use, step.burst, n, step.want)
				}
				g.settle()
			}
		})
	}
}

// TestCutHard checks that members of a hard limit that was cut return what they held: together they admit no more
// than is left of the new limit.
func TestCutHard(t *testing.T) {
	for kind, tier := range days {
		t.Run(kind, func(t *testing.T) {
			const members, used = 3, 6
			g := newOneRange(t, members, ruleOf("l", tier(300), hard))
			k := key("l", "k")
			for i := range members {
				g.drain(i, k, used/members)
				g.settle()
			}
			g.limits(ruleOf("l", tier(20), hard))
			n, most := 0, 20
			if kind != "bucket" {
				most -= used
			}
			for i := range members {
				n += g.drain(i, k, 100)
			}
			if n > most {
				t.Errorf("%d passed after the cut, want %d at most", n, most)
			}
		})
	}
}

// TestRemovedAndBack checks that a limit that is removed and restored keeps its counts.
func TestRemovedAndBack(t *testing.T) {
	for kind, tier := range days {
		for _, away := range []time.Duration{0, 10 * time.Second, 3 * time.Minute} {
			g := newOneRange(t, 2, ruleOf("l", tier(10), hard))
			k := key("l", "k")
			g.drain(0, k, 20)
			g.settle()
			g.limits()
			if d := g.take(0, k, 1); d.Why != quota.WhyNoLimit {
				t.Fatalf("%s: without the limit: %v", kind, d.Why)
			}
			for range away / time.Second {
				g.pass(time.Second)
				g.ledger.Sweep(g.now)
			}
			g.limits(ruleOf("l", tier(10), hard))
			if n := g.drain(1, k, 20); n != 0 {
				t.Errorf("%s, away for %v: %d passed when it came back", kind, away, n)
			}
		}
	}
}

// TestOverridesKeepWhatWasUsed checks that usage survives overrides that raise, lower, ban, lift
// the ban and expire.
func TestOverridesKeepWhatWasUsed(t *testing.T) {
	burst := func(n int64) *quota.Override { return &quota.Override{Burst: n} }
	g := newOneRange(t, 1, ruleOf("l", days["fixed"](10)))
	k := key("l", "k")
	g.drain(0, k, 4)
	for _, tc := range []struct {
		name   string
		to     *quota.Override
		passes int
		why    quota.Why
	}{
		{"raised", burst(12), 8, quota.WhyOverLimit},
		{"lowered", burst(6), 0, quota.WhyOverBurst},
		{"raised again", burst(15), 3, quota.WhyOverLimit},
		{"banned", &quota.Override{Burst: -1, Class: quota.Banned}, 0, quota.WhyBanned},
		{"unlimited", &quota.Override{Burst: -1, Class: quota.Unlimited}, 50, 0},
		{"expired", nil, 0, quota.WhyOverLimit},
		{"scaled", &quota.Override{Burst: -1, Scale: 2 * quota.Million}, 5, quota.WhyOverLimit},
		{"expired again", nil, 0, quota.WhyOverLimit},
	} {
		g.settle()
		g.override(k, tc.to)
		if n := g.drain(0, k, 50); n != tc.passes {
			t.Errorf("%s: %d passed, want %d", tc.name, n, tc.passes)
		}
		if d := g.take(0, k, 7); tc.why != 0 && d.Why != tc.why {
			t.Errorf("%s: then %v, want %v", tc.name, d.Why, tc.why)
		}
	}
	if n := g.drain(0, key("l", "other"), 20); n != 10 {
		t.Errorf("%d passed of another key, want 10", n)
	}
}

// TestOverrideOfTiers checks that an override scales all tiers, and with them the largest cost that
// can ever fit.
func TestOverrideOfTiers(t *testing.T) {
	g := newOneRange(t, 1, ruleOf("l", perHour(20), func(l *quota.Limit) { l.More = []quota.Tier{perHour(10)} }))
	k := key("l", "k")
	g.override(k, &quota.Override{Burst: -1, Scale: 3 * quota.Million})
	if d := g.take(0, k, 25); !d.Allowed {
		t.Errorf("25 of 60 and 30: %v", d.Why)
	}
	if d := g.take(0, k, 31); d.Why != quota.WhyOverBurst {
		t.Errorf("31 of 30: %v", d.Why)
	}
	o := key("l", "less")
	g.override(o, &quota.Override{Burst: -1, Scale: quota.Million / 2})
	if d := g.take(0, o, 6); d.Why != quota.WhyOverBurst {
		t.Errorf("6 of 5: %v", d.Why)
	}
	if n := g.drain(0, o, 20); n != 5 {
		t.Errorf("%d passed, want 5", n)
	}
}

// TestChangesNeverRefill changes limits at random while three members use them at random. A change
// must never raise a level by more than the burst grew, and between buckets not at all. In total,
// windows of a day may admit at most the largest burst that was ever set, and buckets at most the
// first.
func TestChangesNeverRefill(t *testing.T) {
	families := map[string][]string{
		"windows": {"fixed", "weekly", "calendar"},
		"buckets": {"bucket"},
		"all":     {"bucket", "fixed", "weekly", "sliding", "periodic", "calendar"},
	}
	for name, kinds := range families {
		for _, ceiling := range []quota.Ceiling{quota.Soft, quota.Hard} {
			for seed := range uint64(15) {
				changes{t: t, name: name, kinds: kinds, ceiling: ceiling, rng: rand.New(rand.NewPCG(seed, 7)), seed: seed}.run()
			}
		}
	}
}

type changes struct {
	t       *testing.T
	name    string
	kinds   []string
	ceiling quota.Ceiling
	rng     *rand.Rand
	seed    uint64
}

func (c changes) limit() quota.Limit {
	burst := 5 + c.rng.Int64N(30)
	l := ruleOf("l", days[c.kinds[c.rng.IntN(len(c.kinds))]](burst))
	l.Ceiling = c.ceiling
	return l
}

func (c changes) run() {
	l, k := c.limit(), key("l", "k")
	first, largest := l.Burst, l.Burst
	g := newOneRange(c.t, 3, l)
	admitted := int64(0)
	for range 60 {
		for range c.rng.IntN(4) {
			cost := 1 + c.rng.Int64N(3)
			if g.take(c.rng.IntN(3), k, cost).Allowed {
				admitted += cost
			}
		}
		g.pass(time.Duration(c.rng.IntN(200)) * time.Millisecond)
		g.settle() // the leader then knows all usage
		before, old := g.level(k), l
		l = c.limit()
		if c.ceiling == quota.Hard && c.rng.IntN(8) == 0 { // soft: every member guesses about a new key
			g.limits()
		}
		g.limits(l)
		largest = max(largest, l.Burst)
		most := before
		if l.Kind != quota.TokenBucket || old.Kind != quota.TokenBucket {
			most += max(0, l.BurstUnits()-old.BurstUnits())
		}
		if after := g.level(k); after > most+quota.Token/100 {
			c.t.Fatalf("%s %v, seed %d: %v of %d (level %d) became %v of %d: level %d", c.name, c.ceiling, c.seed,
				old.Kind, old.Burst, before, l.Kind, l.Burst, after)
		}
	}
	bound := largest
	if c.name == "buckets" {
		bound = first
	}
	if c.ceiling == quota.Soft {
		bound += 3 // what members overdraw before they can know better
	}
	if c.name != "all" && admitted > bound {
		c.t.Errorf("%s %v, seed %d: %d admitted, want at most %d", c.name, c.ceiling, c.seed, admitted, bound)
	}
}
