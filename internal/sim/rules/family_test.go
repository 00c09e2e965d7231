package rules

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// TestHierarchy checks user in tenant in service: each level is charged by its part of the key, the
// decision names the level that refuses, and a refusal charges none.
func TestHierarchy(t *testing.T) {
	g := newOneRange(t, 1,
		ruleOf("service", perHour(12)),
		ruleOf("tenant", perHour(8), child("service")),
		ruleOf("user", perHour(5), child("tenant")))
	user := func(k string, n int64) quota.Decision { return g.take(0, key("user", k), n) }
	for _, tc := range []struct {
		key     string
		cost    int64
		allowed bool
		why     quota.Why
	}{
		{"t1/a", 4, true, 0},
		{"t1/a", 2, false, quota.WhyOverLimit}, // its own limit
		{"t1/b", 4, true, 0},
		{"t1/c", 1, false, quota.WhyParentOverLimit}, // t1 has 8
		{"t2/a", 4, true, 0},
		{"t2/b", 1, false, quota.WhyParentOverLimit}, // the service has 12
		{"t2/b", 6, false, quota.WhyOverBurst},
	} {
		d := user(tc.key, tc.cost)
		if d.Allowed != tc.allowed || !tc.allowed && d.Why != tc.why {
			t.Errorf("%s, cost %d: allowed %v, %v; want %v, %v", tc.key, tc.cost, d.Allowed, d.Why, tc.allowed, tc.why)
		}
	}
	g.settle()
	for k, want := range map[quota.Key]quota.Units{
		key("user", "t1/a"): 1, key("user", "t1/b"): 1, key("user", "t1/c"): 5, key("user", "t2/a"): 1, key("user", "t2/b"): 5,
		key("tenant", "t1"): 0, key("tenant", "t2"): 4, key("service", quota.WholeKey): 0,
	} {
		if got := g.level(k); got/tokens != want {
			t.Errorf("%v: level %d, want %d tokens", k, got, want)
		}
	}
}

// family is a parent of 20/s with two children, each of which may use all of it. floor is the
// guarantee of each child, per second.
func family(t *testing.T, floor int64) *oneRange {
	second := func(n int64) quota.Tier {
		return quota.Tier{Rate: quota.Rate{Tokens: n, Per: time.Second}, Burst: n}
	}
	return newOneRange(t, 1, ruleOf("parent", second(20)), ruleOf("child", second(20), child("parent"), func(l *quota.Limit) {
		if floor > 0 {
			l.Floor, l.FloorBurst = quota.Rate{Tokens: floor, Per: time.Second}, floor
		}
	}))
}

// flood lets one child ask without pause for some seconds while the other asks twenty times a
// second, and returns how many requests of each passed.
func (g *oneRange) flood(seconds int) (flooder, other int) {
	for range seconds * 20 {
		flooder += g.drain(0, key("child", "p/flood"), 200)
		other += g.drain(0, key("child", "p/quiet"), 1)
		g.pass(50 * time.Millisecond)
	}
	return flooder, other
}

// TestFloor checks that a flooding child takes what its sibling leaves, and without a floor
// everything; that a floor is guaranteed; and that the parent repays what floors overdraw.
func TestFloor(t *testing.T) {
	g := family(t, 0)
	if _, other := g.flood(10); other > 20 {
		t.Errorf("without a floor %d of the other passed: the flooder did not take all", other)
	}
	g = family(t, 5)
	flooder, other := g.flood(10)
	if other < 50 {
		t.Errorf("%d of the other passed in 10s, its floor is 5/s", other)
	}
	if sum := flooder + other; sum > 20*10+20+2*(5+5) {
		t.Errorf("%d and %d passed in 10s: more than the parent has and the floors' bursts", flooder, other)
	}
	if flooder < 100 {
		t.Errorf("%d of the flooder passed: it gets what is left, about 15/s", flooder)
	}

	// Borrowing: alone, a child gets the whole parent.
	g = family(t, 5)
	alone := 0
	for range 100 {
		alone += g.drain(0, key("child", "p/flood"), 200)
		g.pass(50 * time.Millisecond)
	}
	if alone < 100 || alone > 20*5+20+10 {
		t.Errorf("%d passed alone in 5s, the parent has 20/s", alone)
	}

	// Debt: floors overdraw the parent, which must repay before anybody else gets more.
	g = newOneRange(t, 1, ruleOf("parent", quota.Tier{Rate: quota.Rate{Tokens: 2, Per: time.Second}, Burst: 10}),
		ruleOf("floored", perHour(10), child("parent"), func(l *quota.Limit) {
			l.Floor, l.FloorBurst = quota.Rate{Tokens: 1, Per: time.Hour}, 6
		}), ruleOf("plain", perHour(100), child("parent")))
	g.drain(0, key("plain", "x"), 20)
	for i := range 6 {
		if d := g.take(0, key("floored", "k"), 1); !d.Allowed || d.Why != quota.WhyFloor {
			t.Errorf("floor, token %d: allowed %v, %v", i, d.Allowed, d.Why)
		}
	}
	if d := g.take(0, key("floored", "k"), 1); d.Allowed || d.Why != quota.WhyParentOverLimit {
		t.Errorf("beyond the floor: allowed %v, %v", d.Allowed, d.Why)
	}
	g.pass(2 * time.Second) // 4 of 6 are repaid
	if d := g.take(0, key("plain", "x"), 1); d.Allowed {
		t.Error("passed before the parent's debt was paid")
	}
	g.pass(2 * time.Second)
	if d := g.take(0, key("plain", "x"), 1); !d.Allowed {
		t.Errorf("after the debt was paid: %v", d.Why)
	}
}

// TestFloorOfHard checks that the floor of a hard child is available at once too.
func TestFloorOfHard(t *testing.T) {
	g := newOneRange(t, 1, ruleOf("parent", perHour(5)), ruleOf("l", perHour(10), hard, child("parent"), func(l *quota.Limit) {
		l.Floor, l.FloorBurst = quota.Rate{Tokens: 1, Per: time.Hour}, 3
	}))
	g.take(0, key("parent", quota.WholeKey), 5)
	g.settle()
	for i := range 3 {
		if d := g.take(0, key("l", "k"), 1); !d.Allowed || d.Why != quota.WhyFloor {
			t.Errorf("token %d of the floor: allowed %v, %v", i, d.Allowed, d.Why)
		}
	}
	if d := g.take(0, key("l", "k"), 1); d.Allowed {
		t.Errorf("beyond it: %v", d.Why)
	}
}

// TestInFlight checks that two members together never have more in flight than the limit, through
// acquires and releases, and that a check without acquire is refused with that reason.
func TestInFlight(t *testing.T) {
	for _, ceiling := range []quota.Ceiling{quota.Soft, quota.Hard} {
		g := newOneRange(t, 2, ruleOf("l", quota.Tier{Kind: quota.Concurrency, Burst: 10}, func(l *quota.Limit) { l.Ceiling = ceiling }))
		k := key("l", "k")
		if d := g.checkNow(0, k, 1); d.Allowed || d.Why != quota.WhyUseAcquire {
			t.Errorf("checked: allowed %v, %v", d.Allowed, d.Why)
		}
		var held [2]int
		for round := range 30 {
			m := round % 2
			held[m] += g.drain(m, k, 4)
			g.pass(150 * time.Millisecond)
			most := 10
			if ceiling == quota.Soft { // each may guess a quarter of the limit before the first grant
				most += 4
			}
			if sum := held[0] + held[1]; sum > most {
				t.Fatalf("%v: %d and %d in flight", ceiling, held[0], held[1])
			}
			if m = (round / 2) % 2; held[m] > 2 {
				g.members[m].Release(g.clock, k.LimitName, k.Key, 2, nil)
				held[m] -= 2
			}
			g.pass(150 * time.Millisecond)
		}
		for m := range held {
			g.members[m].Release(g.clock, k.LimitName, k.Key, 1000, nil) // more than is in flight
		}
		g.settle()
		if got := g.level(k); got != 10*tokens {
			t.Errorf("%v: level %d when all are released, want 10 tokens", ceiling, got)
		}
		// Places stay taken for any time, and the leader knows of them all the while.
		g.drain(0, k, 4)
		for range 30 {
			g.pass(time.Second)
			g.ledger.Sweep(g.now)
			g.members[0].Sweep(g.now)
			if got := g.level(k); got > 6*tokens {
				t.Fatalf("%v: level %d with 4 in flight", ceiling, got)
			}
		}
		// The holder dies.
		g.ledger.MemberGone(g.now, "m0", math.MaxUint64)
		at := 10 * tokens
		if ceiling == quota.Hard { // the work of the dead holder may go on for a lease
			at = 6 * tokens
		}
		if got := g.level(k); got != at {
			t.Errorf("%v: level %d after the holder's death, want %d", ceiling, got, at)
		}
		g.now = g.now.Add(quota.DefaultLease)
		if got := g.level(k); got != 10*tokens {
			t.Errorf("%v: level %d a lease after the holder's death, want 10 tokens", ceiling, got)
		}
	}
}

// TestInFlightAtTheLeader checks that in-flight limits do not combine with decide: leader, because
// a leader that decides cannot know of releases.
func TestInFlightAtTheLeader(t *testing.T) {
	l := ruleOf("l", quota.Tier{Kind: quota.Concurrency, Burst: 3}, atLeader)
	if err := l.Validate(); err == nil || !strings.HasPrefix(err.Error(), "decide: ") {
		t.Errorf("in flight, decided at the leader: %v", err)
	}
}

// TestAcquiredWhileLettingGo checks that the leader learns of what is acquired between a key's last
// report and its answer.
func TestAcquiredWhileLettingGo(t *testing.T) {
	g := newOneRange(t, 1, ruleOf("l", quota.Tier{Kind: quota.Concurrency, Burst: 10}))
	k := key("l", "k")
	g.take(0, k, 1)
	g.members[0].Release(g.clock, k.LimitName, k.Key, 1, nil)
	m, acquired := g.members[0], false
	for range 300 {
		g.now = g.now.Add(10 * time.Millisecond)
		for _, r := range m.Collect(g.now) {
			if r.Entries[0].Final { // lost
				var c aggregator.Call
				c.Reset([]quota.Request{ask(k.LimitName, k.Key, 2)}, make([]quota.Decision, 1))
				c.Acquires, c.Final = true, true
				acquired = m.Decide(g.clock, &c)
				continue
			}
			if grant, err := g.ledger.Report(g.now, r); err == nil {
				m.Apply(g.now, grant)
			}
		}
		if acquired {
			break
		}
	}
	g.pass(4 * time.Second)
	if got := g.level(k); got != 8*tokens {
		t.Errorf("level %d with 2 in flight, want 8 tokens", got)
	}
}
