package aggregator

import (
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// sums holds the decisions of each limit.
type sums map[quota.LimitName]tallied

func (s sums) add(n quota.LimitName, admitted, refused quota.Units) {
	t := s[n]
	t.spent, t.refused = t.spent+admitted, t.refused+refused
	s[n] = t
}

// tallyCheck checks a key and adds the outcome to sums.
func (p *pair) tallyCheck(want sums) {
	k, cost := p.key(), 1+p.rng.Int64N(3)
	if k.LimitName.Limit == "busy" {
		return // it is acquired, not checked
	}
	d := p.each("check", func(a *Aggregator) any { return a.checkNow(p.clock, k.LimitName, k.Key, cost) }).(quota.Decision)
	switch {
	case d.Why == quota.WhyNoLimit:
	case d.Allowed:
		want.add(k.LimitName, quota.FromTokens(cost), 0)
	default:
		want.add(k.LimitName, 0, quota.FromTokens(cost))
	}
}

// TestTally: the tally of every limit contains each decision once: over epochs of keys, compact ones, ranges without
// a leader, and limits that are added and removed.
func TestTally(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for seconds in one goroutine; left out by -short")
	}
	for seed := range uint64(40) {
		p := newPair(t, seed, true, Config{Nodes: 3, MaxKeys: 1000, Sync: 100 * time.Millisecond, Idle: 20 * time.Second})
		want, got := sums{}, sums{}
		most := 0
		for p.step = range 1500 {
			switch n := p.rng.IntN(20); {
			case n < 12:
				p.tallyCheck(want)
			case n < 15:
				p.report()
			case n == 15:
				p.pass()
			case n == 16 && p.rng.IntN(10) == 0:
				p.limits(uint64(p.step) + 2)
			case n == 17 && p.rng.IntN(10) == 0:
				p.term++
				leader := []quota.NodeID{"", "l"}[p.rng.IntN(2)]
				p.each("leader", func(a *Aggregator) any { a.SetLeader(0, leader, p.term); a.SetLeader(1, "l", p.term); return nil })
			case n >= 18:
				p.now = p.now.Add(time.Duration(p.rng.IntN(300)) * time.Millisecond)
			}
			if p.rng.IntN(5) == 0 {
				told(p.both[0], got)
			}
			most = max(most, p.compacted)
		}
		p.both[0].TallyAll(got.add)
		for n, w := range want {
			if got[n] != w {
				t.Fatalf("seed %d: %v: tallied %+v; decided %+v", seed, n, got[n], w)
			}
		}
		if most == 0 || len(got) != len(want) {
			t.Fatalf("seed %d: %d keys were compacted; %d limits tallied of %d", seed, most, len(got), len(want))
		}
	}
}

// told takes the tally and adds it to sums.
func told(a *Aggregator, to sums) {
	a.Tally(func(l quota.LimitName, admitted, refused quota.Units) {
		to.add(l, admitted, refused)
	})
}

// TestTallyAllocatesNothing: a tally allocates nothing, also for a key that has changed.
func TestTallyAllocatesNothing(t *testing.T) {
	a, clock := benchTable(t, []string{"k"})
	b, _ := a.find(quota.Key{LimitName: benchName, Key: "k"})
	if n := testing.AllocsPerRun(1000, func() {
		a.checkNow(clock, benchName, "k", 1)
		b.lock()
		b.tally()
		b.unlock()
		a.Tally(func(quota.LimitName, quota.Units, quota.Units) {})
	}); n != 0 {
		t.Errorf("%v allocations; want none", n)
	}
}

// TestTallyOfCostsThatNeverFit: a request that costs more than the burst, or than max_cost, is counted as refused,
// once, on every path.
func TestTallyOfCostsThatNeverFit(t *testing.T) {
	l := quota.Limit{
		LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Rate: quota.Rate{Tokens: 10, Per: time.Second}, Burst: 20, MaxCost: 30,
	}
	limits, err := quota.NewLimits(1, []quota.Limit{l})
	if err != nil {
		t.Fatal(err)
	}
	now := quota.Time(time.Hour)
	clock := func() quota.Time { return now }
	a := New(Config{Self: "a", Incarnation: 1, Nodes: 1}, now)
	a.SetLimits(now, limits)
	want := quota.Units(0)
	for _, cost := range []int64{21, 30, 31, quota.MaxTokens} {
		if d := a.checkNow(clock, l.LimitName, "k", cost); d.Allowed {
			t.Fatalf("a cost of %d was admitted", cost)
		}
		c := Call{Requests: []quota.Request{{Key: quota.Key{LimitName: l.LimitName, Key: "k"}, Cost: cost}}, Out: make([]quota.Decision, 1)}
		if a.Decide(clock, &c) {
			t.Fatalf("a call with a cost of %d was admitted", cost)
		}
		want += 2 * quota.FromTokens(cost)
	}
	got := quota.Units(0)
	a.Tally(func(_ quota.LimitName, _, refused quota.Units) { got += refused })
	if got != want {
		t.Errorf("%v were refused by the tally, want %v", got, want)
	}
}

// TestTallyOfCallsThatComeAgain: a refusal of a limit in shadow, in a call that then asks the leader of another
// limit, is counted once, in the tally and in the report, however often the call is decided.
func TestTallyOfCallsThatComeAgain(t *testing.T) {
	for name, cost := range map[string]int64{"more than the burst": 50, "more than is left": 20} {
		r := newRig(t, Config{Nodes: 5 * many})
		shadow := ruleOf("shadow", perHour(20), func(l *quota.Limit) { l.Enforcement = quota.Shadow })
		other := ruleOf("other", perHour(100), hard)
		r.limits(shadow, other)
		r.check(shadow.LimitName, "k", 1)
		var c Call
		c.Reset([]quota.Request{ask(shadow.LimitName, "k", cost), ask(other.LimitName, "k", 1)}, make([]quota.Decision, 2))
		for range 3 {
			if r.Decide(r.clock, &c); c.Need != Leader || c.Key.Limit != "other" {
				t.Fatalf("%s: needs %d of %v; want the leader of the other limit", name, c.Need, c.Key)
			}
		}
		c.Final, c.Alone = true, true // its leader does not answer
		r.Decide(r.clock, &c)
		got := sums{}
		r.TallyAll(got.add)
		if got := got[shadow.LimitName].refused; got != quota.FromTokens(cost) {
			t.Errorf("%s: %d of %d tokens refused by the tally; want them once", name, got/tokens, cost)
		}
		if e := r.collect().Entries; cost <= 20 && !slices.ContainsFunc(e, func(e quota.ReportEntry) bool { return e.Refused == quota.FromTokens(cost) }) {
			t.Errorf("%s: reported %+v; want %d refused", name, e, cost)
		}
	}
}
