package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestParentCounts checks long windows of a limit and of its parent, each soft or hard, wherever they are decided, under
// faults of all kinds: at the end, the newest leader has booked exactly what callers received, in both. Where nodes die,
// leaders decide nothing, because a request whose node dies meanwhile may count; under hard they never do here, for the
// same reason.
func TestParentCounts(t *testing.T) {
	t.Parallel()
	seeds := uint64(100)
	if testspeed.IsFull() {
		seeds = 3000
	}
	admitted := int64(0)
	for seed := range seeds {
		s := parentScenario(seed)
		r := newRun(s)
		r.start()
		r.until(r.Start.Add(r.Duration + r.late))
		r.end()
		lead := r.newest()
		if lead.ledger == nil {
			t.Fatalf("%s: nobody leads", describe(s))
		}
		booked := func(l *quota.Limit, key string) int64 {
			k, _ := lead.ledger.Key(lead.node.clock(), quota.Key{LimitName: l.LimitName, Key: key})
			return l.Burst - k.Remaining
		}
		admitted += r.res.Admitted
		own, parent := booked(&r.Limit, "k"), booked(&s.parents[0], quota.WholeKey)
		if own != r.res.Admitted || parent != r.res.Admitted {
			t.Errorf("%s, %v/%v below %v/%v: %d admitted, booked %d and %d", describe(s), s.Limit.Ceiling, s.Limit.Decide,
				s.parents[0].Ceiling, s.parents[0].Decide, r.res.Admitted, own, parent)
		}
	}
	if admitted < 20*int64(seeds) {
		t.Errorf("%d admitted in %d runs: too little is tested", admitted, seeds)
	}
}

// TestHardParents plays scenarios of a campaign below a hard parent, half of them with client processes, and checks that
// the parent never admits more than it may, whatever its child is and whatever fails.
func TestHardParents(t *testing.T) {
	t.Parallel()
	admitted := int64(0)
	for _, seed := range seedsAnd(40, 101, 114, 123) { // the three fail when a parent gets back twice what its child does
		s := belowHardParent(seed)
		if s.Limit.Validate() != nil { // a concurrency limit has no parents
			continue
		}
		r := newRun(s)
		r.start()
		r.until(r.Start.Add(r.Duration + r.late))
		r.end()
		admitted += r.res.Admitted
		if r.parentExcess > Exact {
			t.Errorf("%s, below %v: %.2f tokens beyond the parent", describe(s), s.parents[0].First(), r.parentExcess)
		}
		if len(r.res.Violations) > 0 {
			t.Errorf("%s: %v", describe(s), r.res.Violations)
		}
	}
	if admitted < 4000 {
		t.Errorf("%d admitted: too little is tested", admitted)
	}
}

// belowHardParent puts the limit of a scenario of a campaign below a hard limit that nodes decide, because callers learn of
// a leader's decision later than it is made. The envelope assumes that clocks agree and that nothing is reset, charged
// after the fact or resized. A sliding window gets no refunds: nodes count a use just before its end in the next one, and so
// what is given back of it.
func belowHardParent(seed uint64) Scenario {
	s := Campaign(seed)
	d := draw{rand.New(rand.NewPCG(seed, 1002))}
	rate := pick[int64](d, 1, 5, 20, 100, 500)
	up := limit(rate, max(1, rate*pick[int64](d, 1, 5, 10, 20, 50)/10), quota.Hard)
	up.LimitName = quota.LimitName{Namespace: s.Limit.Namespace, Limit: "up"}
	switch d.IntN(3) {
	case 0:
		up.SetFirst(d.window(quota.FixedWindow))
	case 1:
		up.SetFirst(d.window(quota.SlidingWindow))
	}
	up.Decide = quota.Locally
	s.Limit.Parent, s.parents = "up", []quota.Limit{up}
	if d.chance(2) {
		s.Limit.Decide = quota.Locally
	}
	if d.chance(2) {
		s.Clients, s.Breaks = s.Nodes*pick(d, 1, 2, 4, 10), pick(d, 0, 0, .1, .5)
	}
	s.Drift, s.Skew = 0, -1
	s.Loads = slices.DeleteFunc(s.Loads, func(l Load) bool { return l.Charge })
	if up.Kind == quota.SlidingWindow {
		for i := range s.Loads {
			s.Loads[i].Refund = 0
		}
	}
	s.Faults = slices.DeleteFunc(s.Faults, func(f Fault) bool {
		return slices.Contains([]FaultKind{Reset, Clock, Resize, Override}, f.Kind)
	})
	return s
}

func parentScenario(seed uint64) Scenario {
	rng := rand.New(rand.NewPCG(seed, 77))
	ms := func(least, more int) time.Duration { return time.Duration(least+rng.IntN(more)) * time.Millisecond }
	kills := seed%2 == 0
	where := func(c quota.Ceiling) quota.Decide {
		if kills || c == quota.Hard {
			return []quota.Decide{quota.DecideDefault, quota.Auto, quota.Locally}[rng.IntN(3)]
		}
		return []quota.Decide{quota.DecideDefault, quota.Auto, quota.Locally, quota.AtLeader}[rng.IntN(4)]
	}
	draw := func(name string) quota.Limit {
		l := limit(1, 1, []quota.Ceiling{quota.Soft, quota.Soft, quota.Hard}[rng.IntN(3)])
		l.LimitName.Limit = name
		most := int64(1_000_000)
		if l.Ceiling == quota.Hard && rng.IntN(2) == 0 {
			most = 20 + rng.Int64N(100)
		}
		l.SetFirst(quota.Window(quota.FixedWindow, most, 300*24*time.Hour))
		l.Decide = where(l.Ceiling)
		return l
	}
	l, up := draw("l"), draw("up")
	l.Parent = "up"
	s := Scenario{
		Seed: seed, Nodes: 3 + 2*rng.IntN(2), Duration: 40 * time.Second, Limit: l, parents: []quota.Limit{up}, Skew: -1, Delay: ms(1, 60), Jitter: ms(0, 100),
		Loss: []float64{0, 0, .05, .2}[rng.IntN(4)], Hop: 20 * time.Millisecond, CommitDelay: ms(5, 300),
		Loads: []Load{{Rate: 1 + 20*rng.Float64(), To: 20 * time.Second, Clump: 1 + rng.IntN(5)*rng.IntN(2), On: ms(100, 3000), Off: ms(0, 5000)}},
	}
	for k := range 6 {
		if kills {
			s.Faults = append(s.Faults, Fault{At: time.Duration(3*k)*time.Second + ms(500, 2000), Kind: Kill, Nodes: []int{1 + k%3}, For: ms(200, 3000)})
		}
	}
	for _, kind := range []FaultKind{Pause, Move, Partition, Clock, Suspend, Refuse, Switch} {
		for range rng.IntN(3) {
			f := Fault{At: ms(0, 18_000), Kind: kind, Nodes: []int{1 + rng.IntN(3)}, For: ms(100, 5000)}
			switch kind {
			case Partition:
				f.Groups, f.Nodes = [][]int{f.Nodes}, nil
			case Clock:
				f.For, f.Delay = 0, ms(-5000, 10_000)
			case Move:
				f.For = 0
			case Switch:
				f.Nodes, f.For, f.Decide = nil, 0, where(l.Ceiling)
			}
			s.Faults = append(s.Faults, f)
		}
	}
	slices.SortFunc(s.Faults, func(x, y Fault) int { return cmp.Compare(x.At, y.At) })
	return s
}
