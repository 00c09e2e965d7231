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

// TestDurableCounts kills and restarts leaders and their members again and again while a long
// window is counted, by members and by leaders. At the end the newest leader has booked exactly the
// admissions that callers received.
func TestDurableCounts(t *testing.T) {
	t.Parallel()
	seeds := uint64(1000)
	if testing.Short() {
		seeds = 20
	}
	kills, told := 0, int64(0)
	for n := range 3 * seeds {
		seed := n / 3
		rng := rand.New(rand.NewPCG(seed, 11))
		l := limit(1, 1, quota.Soft)
		l.SetFirst(quota.Window(quota.FixedWindow, 1_000_000, 24*time.Hour))
		if seed%4 == 0 {
			l.Ceiling = quota.Hard
		}
		if n%3 > 0 {
			l.Ceiling, l.Decide = quota.Soft, quota.AtLeader
		}
		s := Scenario{
			Seed: seed, Nodes: 3 + 2*int(seed%2), Duration: 22 * time.Second, Limit: l, Skew: -1, Delay: time.Millisecond,
			Jitter: []time.Duration{0, 5 * time.Millisecond}[seed%2], Loss: .05 * float64(seed%3), Hop: 20 * time.Millisecond,
			Loads: []Load{{Rate: 200, To: 8 * time.Second, Spread: Spread{Skew: .5}}},
		}
		for range 1 + rng.IntN(4) {
			s.Faults = append(s.Faults, Fault{
				At: time.Duration(500+rng.IntN(7000)) * time.Millisecond, Kind: Kill, Leader: rng.IntN(3) > 0, Nodes: []int{1 + rng.IntN(3)},
				For: time.Duration(200+rng.IntN(2000)) * time.Millisecond,
			})
			if f := &s.Faults[len(s.Faults)-1]; f.Leader {
				f.Nodes = nil
			}
		}
		kills += len(s.Faults)
		if n%3 == 2 {
			for at := time.Duration(0); at < 8*time.Second; at += time.Duration(200+rng.IntN(2000)) * time.Millisecond {
				s.Faults = append(s.Faults, Fault{At: at, Kind: Switch, Decide: quota.Decide(rng.IntN(4))})
			}
			slices.SortFunc(s.Faults, func(x, y Fault) int { return cmp.Compare(x.At, y.At) })
		}
		r := newRun(s)
		r.start()
		r.until(r.Start.Add(r.Duration + r.late))
		r.end()
		told += r.res.Admitted
		if booked := r.booked(t); booked != r.res.Admitted {
			t.Errorf("seed %d, decide %d, %s: booked %d, told %d (%+d)", seed, l.Decide, describe(s), booked, r.res.Admitted, booked-r.res.Admitted)
		}
	}
	t.Logf("%d runs, %d kills, %d admitted", 3*seeds, kills, told)
}

// TestSparseCounts kills every node twice while members open and close a key again and again, with
// logs that take up to a second to commit, loss, and faults of other kinds. At the end, everything that
// was not admitted remains: no promise to a process outlives it.
func TestSparseCounts(t *testing.T) {
	t.Parallel()
	seeds := uint64(600)
	if testspeed.IsFull() {
		seeds = 6000
	}
	kept := 0
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 12))
		l := limit(1, 1, quota.Hard)
		l.SetFirst(quota.Window([]quota.Kind{quota.FixedWindow, quota.PeriodicRefill}[seed%2], 1_000_000, 300*24*time.Hour))
		if rng.IntN(4) == 0 {
			l.Ceiling = quota.Soft
		}
		l.Decide = []quota.Decide{quota.DecideDefault, quota.Locally}[rng.IntN(2)]
		ms := func(least, more int) time.Duration { return time.Duration(least+rng.IntN(more)) * time.Millisecond }
		s := Scenario{
			Seed: seed, Nodes: 3 + 2*rng.IntN(2), Duration: 40 * time.Second, Limit: l, Skew: -1, Delay: ms(1, 60), Jitter: ms(0, 100), Near: rng.IntN(3) == 0,
			Loss: []float64{0, 0, .05, .2}[rng.IntN(4)], Hop: 20 * time.Millisecond, CommitDelay: ms(5, 1000), PerEntry: ms(0, 300) * time.Duration(rng.IntN(2)),
			Loads: []Load{{Rate: 1 + 4*rng.Float64(), To: 20 * time.Second, Clump: 1 + rng.IntN(20)*rng.IntN(2), On: ms(100, 3000), Off: ms(0, 5000)}},
		}
		for k := range 6 {
			s.Faults = append(s.Faults, Fault{At: time.Duration(3*k)*time.Second + ms(500, 2000), Kind: Kill, Nodes: []int{1 + k%3}, For: ms(200, 3000)})
		}
		for _, kind := range []FaultKind{Pause, Move, Partition, Clock, Suspend, Refuse} {
			for range rng.IntN(3) {
				f := Fault{At: ms(0, 18_000), Kind: kind, Nodes: []int{1 + rng.IntN(3)}, For: ms(100, 5000)}
				switch kind {
				case Partition:
					f.Groups, f.Nodes = [][]int{f.Nodes}, nil
				case Clock, Move:
					f.For = 0
				}
				if kind == Clock {
					f.Delay = ms(-5000, 10_000)
				}
				s.Faults = append(s.Faults, f)
			}
		}
		slices.SortFunc(s.Faults, func(x, y Fault) int { return cmp.Compare(x.At, y.At) })
		r := newRun(s)
		r.start()
		r.until(r.Start.Add(r.Duration + r.late))
		if booked := r.booked(t); booked != r.res.Admitted {
			t.Errorf("seed %d, decide %d, %s: booked %d, told %d (%+d)", seed, l.Decide, describe(s), booked, r.res.Admitted, booked-r.res.Admitted)
		}
		if r.res.Admitted > 0 {
			kept++
		}
	}
	if kept < int(seeds)/2 {
		t.Errorf("something was admitted in %d of %d runs: too little is tested", kept, seeds)
	}
}

// TestRefundsAreBookedOnce gives back two of five tokens a moment after they were admitted, while leaders
// change, nodes stop or die and messages are lost. At the end the leader has booked what was kept: no
// refund is lost or booked twice.
func TestRefundsAreBookedOnce(t *testing.T) {
	t.Parallel()
	seeds := uint64(200)
	if testspeed.IsFull() {
		seeds = 2000
	}
	returned := int64(0)
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 19))
		ms := func(least, more int) time.Duration { return time.Duration(least+rng.IntN(more)) * time.Millisecond }
		l := limit(1, 1, []quota.Ceiling{quota.Soft, quota.Hard}[seed%2])
		l.SetFirst(quota.Window(quota.FixedWindow, 1_000_000, 300*24*time.Hour))
		s := Scenario{
			Seed: seed, Nodes: 3 + 2*rng.IntN(2), Duration: 40 * time.Second, Limit: l, Skew: -1, Delay: ms(1, 60), Jitter: ms(0, 100),
			Loss: []float64{0, .05, .2}[rng.IntN(3)], Hop: 20 * time.Millisecond, CommitDelay: ms(5, 1000),
			Loads: []Load{{Rate: 1 + 9*rng.Float64(), To: 20 * time.Second, On: ms(100, 3000), Off: ms(0, 5000)}},
		}
		kills := seed%4 > 1
		for k := range 6 {
			f := Fault{At: time.Duration(3*k)*time.Second + ms(500, 2000), Kind: []FaultKind{Pause, Move, Suspend, Refuse}[rng.IntN(4)], Nodes: []int{1 + k%3}, For: ms(200, 3000)}
			switch {
			case kills:
				f.Kind = Kill
			case f.Kind == Move:
				f.For = 0
			}
			s.Faults = append(s.Faults, f)
		}
		r := newRun(s)
		back := int64(0)
		r.Decided = func(_ time.Duration, node int, key string, d quota.Decision, _ bool) {
			if !d.Allowed || rng.IntN(5) > 1 {
				return
			}
			n := r.nodes[node-1]
			inc := n.inc
			r.after(ms(0, 800), func() {
				r.step(event{at: r.now, to: n, inc: inc, what: message, f: func() {
					n.agg.Refund(n.clock, l.LimitName, key, 1)
					back++
					r.pump(n)
				}})
			})
		}
		r.start()
		r.until(r.Start.Add(r.Duration + r.late))
		kept := r.res.Admitted - back
		if booked := r.booked(t); booked != kept {
			t.Errorf("seed %d, %s: booked %d, kept %d (%+d)", seed, describe(s), booked, kept, booked-kept)
		}
		returned += back
	}
	if t.Logf("%d runs, %d tokens given back", seeds, returned); returned < 1000 {
		t.Errorf("%d tokens given back: too few to say anything", returned)
	}
}

// booked returns what the newest leader has counted of the key.
func (r *run) booked(t *testing.T) int64 {
	t.Helper()
	lead := r.newest()
	if lead.ledger == nil {
		t.Fatalf("%s: nobody leads", describe(r.Scenario))
	}
	k, _ := lead.ledger.Key(lead.node.clock(), r.key("k"))
	return r.Limit.Burst - k.Remaining
}

// TestReturnsLate kills a node that starts again after longer than leaders remember the dead. What it had
// been promised returns all the same, and what it has counted may be counted twice, as far as it had not
// learned that a leader knows it.
func TestReturnsLate(t *testing.T) {
	t.Parallel()
	l := limit(1, 1, quota.Hard)
	l.SetFirst(quota.Window(quota.FixedWindow, 1_000_000, 300*24*time.Hour))
	for seed := range uint64(20) {
		r := newRun(Scenario{
			Seed: seed, Nodes: 3, Duration: 14 * time.Minute, Limit: l, Skew: -1, Delay: time.Millisecond, Hop: 20 * time.Millisecond,
			Loads:  []Load{{Rate: 3, To: 20 * time.Second}, {Rate: 3, From: 13 * time.Minute, To: 13*time.Minute + 20*time.Second}},
			Faults: []Fault{{At: 5 * time.Second, Kind: Kill, Nodes: []int{1 + int(seed%3)}, For: 11 * time.Minute}},
		})
		r.start()
		r.until(r.Start.Add(r.Duration + r.late))
		lead := r.newest()
		k, _ := lead.ledger.Key(lead.node.clock(), r.key("k"))
		if twice := l.Burst - k.Remaining - r.res.Admitted; twice < 0 || twice > 5 {
			t.Errorf("seed %d: %d admitted, %d too many booked; want 0 to 5", seed, r.res.Admitted, twice)
		}
	}
}

// TestGrantedAfterDeath kills a node while its first report about a key is in flight. The node
// cannot have used what it is granted then. Its journal recorded the key before anybody else heard
// of it, so the node's next process reports a count of zero, and all granted tokens must come back.
func TestGrantedAfterDeath(t *testing.T) {
	l := limit(1, 1, quota.Hard)
	l.SetFirst(quota.Window(quota.FixedWindow, 200, 24*time.Hour))
	r := newRun(Scenario{
		Nodes: 3, Duration: 15 * time.Second, Limit: l, Skew: -1, Delay: 30 * time.Millisecond, Check: true,
		Faults: []Fault{{At: 520 * time.Millisecond, Kind: Kill, Nodes: []int{2}, For: time.Second}},
	})
	r.start()
	r.at(r.Start.Add(500*time.Millisecond), func() { r.request(r.nodes[1], wanted{key: "k", cost: 10}) })
	r.until(r.Start.Add(r.Duration))
	lead := r.newest()
	k, _ := lead.ledger.Key(lead.node.clock(), r.key("k"))
	if r.res.Admitted != 0 || k.Remaining != l.Burst {
		t.Errorf("%d admitted, and %d of %d remain", r.res.Admitted, k.Remaining, l.Burst)
	}
}
