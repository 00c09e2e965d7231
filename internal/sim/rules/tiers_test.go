package rules

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// untouched fails the test unless the leader reports these keys as full.
func (g *oneRange) untouched(keys ...quota.Key) {
	g.t.Helper()
	g.settle()
	for _, k := range keys {
		l := g.set.All()[0]
		for _, o := range g.set.All() {
			if o.LimitName == k.LimitName {
				l = o
			}
		}
		if got := g.level(k); got < l.BurstUnits() {
			g.t.Errorf("%v has a level of %d, want it untouched", k, got)
		}
	}
}

// TestTierRefuses checks that a refusal by any tier charges none.
func TestTierRefuses(t *testing.T) {
	for refuses := range 3 {
		for _, ceiling := range []quota.Ceiling{quota.Soft, quota.Hard} {
			g := newOneRange(t, 1, ruleOf("l", perHour(10), func(l *quota.Limit) {
				l.Ceiling = ceiling
				l.More = []quota.Tier{perHour(10), quota.Window(quota.FixedWindow, 10, day)}
			}))
			counters := []quota.Key{key("l", "k"), key("l#2", "k"), key("l#3", "k")}
			used := counters[refuses]
			g.ask(quota.Ask{Key: used, Cost: 8 * tokens})
			g.take(0, counters[0], 0)
			g.settle()
			for range 5 {
				g.take(0, counters[0], 5)
				g.settle()
			}
			d := g.take(0, counters[0], 5)
			if d.Allowed || d.Tier != refuses+1 {
				t.Errorf("%v: allowed %v by tier %d, want refused by %d", ceiling, d.Allowed, d.Tier, refuses+1)
			}
			g.settle()
			for i, k := range counters {
				want := 10 * tokens
				if i == refuses {
					want = 2 * tokens
				}
				if got := g.level(k); got/tokens != want/tokens {
					t.Errorf("%v, tier %d refuses: tier %d is at %d, want %d", ceiling, refuses+1, i+1, got, want)
				}
			}
		}
	}
}

// TestAllOrNothing checks calls with several limits: if one refuses, for whatever reason, no other
// is charged.
func TestAllOrNothing(t *testing.T) {
	banned := ruleOf("banned", perHour(10), func(l *quota.Limit) { l.Class = quota.Banned })
	few := ruleOf("few", perHour(10), hard, func(l *quota.Limit) { l.MaxKeys = 1 })
	others := append(slow(), banned, few)
	firsts := []string{"bucket", "hard", "fixed", "precious", "tiers", "child", "floored", "waits", "flight", "sliding", "periodic"}
	for name, last := range map[string]struct {
		req quota.Request
		why quota.Why
	}{
		"not found":      {ask(quota.LimitName{Namespace: "nobody", Limit: "x"}, "k", 1), quota.WhyNoLimit},
		"banned":         {ask(banned.LimitName, "k", 1), quota.WhyBanned},
		"too many keys":  {ask(few.LimitName, "second", 1), quota.WhyTooManyKeys},
		"used up":        {ask(key("bucket", "").LimitName, "used", 10), quota.WhyOverLimit},
		"hard, used up":  {ask(key("hard", "").LimitName, "used", 10), quota.WhyOverLimit},
		"needs a leader": {ask(key("precious-hard", "").LimitName, "used", 10), quota.WhyOverLimit},
		"never":          {ask(key("fixed", "").LimitName, "used", 11), quota.WhyOverBurst},
		"negative":       {ask(key("fixed", "").LimitName, "used", -1), quota.WhyUnknown},
	} {
		for at := range 3 { // position of the refusing limit in the call
			t.Run(name, func(t *testing.T) {
				g := newOneRange(t, 1, others...)
				g.take(0, key("few", "first"), 1)
				for _, l := range []string{"bucket", "hard", "precious-hard"} {
					g.take(0, key(l, "used"), 1)
				}
				var reqs []quota.Request
				var keys []quota.Key
				for i, l := range firsts {
					if i == at*len(firsts)/2 {
						reqs = append(reqs, last.req)
					}
					keys = append(keys, key(l, "k"))
					reqs = append(reqs, ask(key(l, "k").LimitName, "k", 2))
				}
				if at == 2 {
					reqs = append(reqs, last.req)
				}
				for range 3 {
					ok, out := g.call(0, true, reqs...)
					var d quota.Decision
					for i := range reqs {
						if reqs[i].Key == last.req.Key {
							d = out[i]
						}
					}
					if ok || d.Why != last.why {
						t.Fatalf("ok %v; %v, want %v", ok, d.Why, last.why)
					}
					g.pass(100 * time.Millisecond)
				}
				g.untouched(append(keys, key("parent", quota.WholeKey))...)
			})
		}
	}
}

// TestPeekInACall checks that a request of cost 0, or in shadow, that waits for a grant does not
// charge the others twice.
func TestPeekInACall(t *testing.T) {
	for _, first := range []quota.Request{ask(key("bucket", "").LimitName, "other", 0), ask(key("shadow", "").LimitName, "other", 4)} {
		g := newOneRange(t, 4, slow()...)
		ok, out := g.call(0, false, first, ask(key("fixed", "k").LimitName, "k", 3))
		if !ok {
			t.Fatalf("refused: %+v", out)
		}
		g.settle()
		if got := g.level(key("fixed", "k")); got != 7*tokens {
			t.Errorf("after %v: level %d after one call of cost 3, want 7 tokens", first.Key, got)
		}
	}
}

// TestSameCounterTwice checks that a call that names a key twice, or two children of one parent,
// pays twice.
func TestSameCounterTwice(t *testing.T) {
	for _, l := range []string{"bucket", "precious", "waits", "tiers", "fixed"} {
		g := newOneRange(t, 1, slow()...)
		k := key(l, "k")
		if ok, _ := g.call(0, false, ask(k.LimitName, "k", 4), ask(k.LimitName, "k", 4)); !ok {
			t.Errorf("%s: 4 and 4 of 10 refused", l)
		}
		g.settle()
		if got := g.level(k); got/tokens != 2 {
			t.Errorf("%s: level %d after 4 and 4, want 2 tokens", l, got)
		}
		if l == "waits" { // 4 more come out of the debt
			continue
		}
		if ok, _ := g.call(0, false, ask(k.LimitName, "k", 2), ask(k.LimitName, "k", 2)); ok {
			t.Errorf("%s: 2 and 2 of 2 passed", l)
		}
		g.settle()
		if got := g.level(k); got/tokens != 2 {
			t.Errorf("%s: level %d after a refusal, want 2 tokens", l, got)
		}
	}
}

// TestCallsTogether runs concurrent calls of two limits, one of which refuses now and then, while
// grants arrive. It checks that in the end exactly what passed was booked.
func TestCallsTogether(t *testing.T) {
	const callers, calls = 2, 4000
	one := ruleOf("one", quota.Tier{Rate: quota.Rate{Tokens: 1000, Per: time.Second}, Burst: 500})
	two := ruleOf("two", quota.Tier{Rate: quota.Rate{Tokens: 700, Per: time.Second}, Burst: 300}, hard)
	g := newOneRange(t, 1, one, two)
	var now atomic.Int64
	now.Store(int64(g.now))
	clock := func() quota.Time { return quota.Time(now.Load()) }
	var passed atomic.Int64
	var made [callers]atomic.Int64
	var wg sync.WaitGroup
	for w := range callers {
		wg.Go(func() {
			defer made[w].Store(math.MaxInt64)
			var c aggregator.Call
			out := make([]quota.Decision, 2)
			reqs := []quota.Request{ask(one.LimitName, "k", 1), ask(two.LimitName, "k", 1)}
			if w == 1 {
				reqs[0], reqs[1] = reqs[1], reqs[0]
			}
			for range calls {
				c.Reset(reqs, out)
				c.Final = true
				if g.members[0].Decide(clock, &c) {
					passed.Add(1)
				}
				made[w].Add(1)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	spent := map[quota.Key]map[quota.Seq]quota.Units{}
	step := 100 * time.Microsecond
	// The member closes the key after a second without use. keepUp therefore stops time while a
	// caller has no processor between a charge and its undo.
	var last [callers]int64
	steps := 0
	keepUp := func() {
		if steps++; steps%1000 != 0 {
			return
		}
		for w := range callers {
			for made[w].Load() == last[w] && last[w] != math.MaxInt64 {
				runtime.Gosched()
			}
			last[w] = made[w].Load()
		}
	}
	drive := func() {
		keepUp()
		g.now = quota.Time(now.Add(int64(step)))
		for _, r := range g.members[0].Collect(g.now) {
			for i := range r.Entries {
				e := &r.Entries[i]
				if spent[e.Key] == nil {
					spent[e.Key] = map[quota.Seq]quota.Units{}
				}
				spent[e.Key][e.Epoch] = e.Used + e.Overdrawn
			}
			if grant, err := g.ledger.Report(g.now, r); err == nil {
				g.members[0].Apply(g.now, grant)
			}
		}
		if g.ledger.Wants() {
			g.write()
		}
	}
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			drive()
		}
	}
	step = 5 * time.Millisecond
	for range 1000 {
		drive()
	}
	for _, l := range []quota.Limit{one, two} {
		var sum quota.Units
		for _, u := range spent[quota.Key{LimitName: l.LimitName, Key: "k"}] {
			sum += u
		}
		if want := quota.FromTokens(passed.Load()); sum != want {
			t.Errorf("%v: %d reported, %d passed", l.LimitName, sum, want)
		}
	}
	t.Logf("%d of %d calls passed", passed.Load(), callers*calls)
}
