package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// worldly is a scenario of three nodes that get twice what the limit admits, for three seconds.
func worldly(l quota.Limit, seed uint64) Scenario {
	return Scenario{
		Seed: seed, Nodes: 3, Duration: 3*time.Second + settle, Sync: 100 * time.Millisecond, Limit: l, Delay: time.Millisecond,
		Hop: 20 * time.Millisecond, Election: 300 * time.Millisecond, Skew: -1, Near: true, Check: true, Keys: Keys{Count: 1},
		Loads: []Load{{Rate: 200, To: 3 * time.Second}},
	}
}

// clean judges a scenario and reports what it breaks.
func clean(t *testing.T, what string, s Scenario) Verdict {
	t.Helper()
	v := Judge(s)
	for _, b := range v.Broken {
		t.Errorf("%s, seed %d: %s: %s", what, s.Seed, b.Property, b.What)
	}
	return v
}

// TestWorld checks members that join, leaders that hand over, clocks that are set, leaders that are
// busy, and changes of where a limit is decided, alone: each happens, and breaks nothing.
func TestWorld(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		for _, l := range []quota.Limit{limit(100, 50, quota.Soft), limit(100, 50, quota.Hard), tiered(quota.Hard, quota.Window(quota.FixedWindow, 150, 2*time.Second))} {
			what := fmt.Sprint(l.Kind, " ", l.Ceiling, " ")
			s := worldly(l, seed)
			s.Nodes, s.Faults = 5, []Fault{{At: time.Second, Kind: Join, Nodes: []int{4}}, {At: 1500 * time.Millisecond, Kind: Join, Nodes: []int{5}}}
			if v := clean(t, what+"join", s); v.PerNode[3] == 0 || v.PerNode[4] == 0 || v.PerNode[0] < v.PerNode[4] {
				t.Errorf("%sjoin, seed %d: the nodes admitted %d", what, seed, v.PerNode)
			}
			s = worldly(l, seed)
			s.Faults = []Fault{{At: time.Second, Kind: Move, Nodes: []int{3}}, {At: 2 * time.Second, Kind: Move, Nodes: []int{2}}, {At: 2500 * time.Millisecond, Kind: Move, Nodes: []int{2}}}
			if v := clean(t, what+"move", s); v.Terms != 3 {
				t.Errorf("%smove, seed %d: %d terms, want 3", what, seed, v.Terms)
			}
			s = worldly(l, seed)
			s.Faults = []Fault{{At: time.Second, Kind: Switch, Decide: quota.AtLeader}, {At: 1500 * time.Millisecond, Kind: Switch, Decide: quota.Locally}, {At: 2 * time.Second, Kind: Switch, Decide: quota.Auto}}
			if v := clean(t, what+"decide", s); v.Result.Asked < 20 || v.Result.Asked > v.Attempted*2/3 {
				t.Errorf("%sdecide, seed %d: %d of %d asked the leader, want those of half a second", what, seed, v.Result.Asked, v.Attempted)
			}
			s = worldly(l, seed)
			s.Limit.Decide, s.PerEntry = quota.AtLeader, 4*time.Millisecond
			if v := clean(t, what+"busy", s); v.Result.Asked == 0 {
				t.Errorf("%sbusy, seed %d: nobody asked", what, seed)
			}
			s = worldly(l, seed)
			s.Faults = []Fault{{At: time.Second, Kind: Clock, Leader: true, Delay: 5 * time.Second}, {At: 2 * time.Second, Kind: Clock, Nodes: []int{2, 3}, Delay: -time.Second}}
			clean(t, what+"clock", s)
		}
	}
}

// TestClockSet checks the clocks of a node whose wall clock is set: its process follows it slowly, the
// timers of the process come when its clock shows their time, and the next process starts with it.
func TestClockSet(t *testing.T) {
	for _, by := range []time.Duration{2 * time.Second, -2 * time.Second} {
		r := newRun(worldly(limit(100, 50, quota.Soft), 1))
		r.start()
		n := r.nodes[0]
		r.until(r.Start.Add(time.Second))
		r.setClocks(r.nodes[:1], by)
		if got := time.Duration(n.clock() - r.now); got != 0 {
			t.Errorf("%v: the process's clock jumped by %v", by, got)
		}
		for d := time.Millisecond; d < 100*time.Millisecond; d += 7 * time.Millisecond {
			want := n.clock().Add(d)
			now, at := r.now, r.timeOf(n, want)
			r.now = at
			got := n.clock()
			if r.now = now; got < want || got > want+1000 {
				t.Errorf("%v: at the time found for %v the clock is %v off", by, d, got.Sub(want))
			}
		}
		r.until(r.Start.Add(2 * time.Second))
		if got := time.Duration(n.clock() - r.now); got != by.Truncate(time.Second)/400 { // 5 ms of a second
			t.Errorf("%v: after a second the clock is %v off", by, got)
		}
		r.kill(n)
		r.restart(n)
		if got := time.Duration(n.clock() - r.now); got != by {
			t.Errorf("%v: the next process's clock is %v off", by, got)
		}
	}
}

// TestLooksAreMonotone checks that a node answers the same reset and no less remaining until it has used
// the key again or has received a message, whatever others use meanwhile. The rate at which a sliding
// window's use returns is rounded; what was missing of the full count at the window's end moved the
// reset by a whole window.
func TestLooksAreMonotone(t *testing.T) {
	t.Parallel()
	for _, tier := range []quota.Tier{
		{Rate: quota.Rate{Tokens: 7, Per: time.Second}, Burst: 60},
		quota.Window(quota.FixedWindow, 20, 4*time.Second),
		quota.Window(quota.SlidingWindow, 20, 3*time.Second),
		quota.Window(quota.PeriodicRefill, 20, 4*time.Second),
	} {
		for _, c := range []quota.Ceiling{quota.Soft, quota.Hard} {
			pairs := 0
			for seed := range uint64(4) {
				s := worldly(tiered(c, tier), seed)
				s.Duration, s.Skew = 12*time.Second, 300*time.Millisecond
				s.Loads = []Load{
					{Rate: 40, To: time.Second, Spread: Spread{Nodes: []int{1, 2}}},
					{Rate: 4, Spread: Spread{Nodes: []int{1}}},
					{Rate: 60, Look: true},
				}
				r := newRun(s)
				r.start()
				r.until(r.Start.Add(s.Duration))
				if pairs += r.looks; len(r.swings) > 0 {
					t.Errorf("%v %v, seed %d: %q", tier.Kind, c, seed, r.swings)
				}
			}
			if pairs < 100 {
				t.Errorf("%v %v: %d pairs of looks: too few to say anything", tier.Kind, c, pairs)
			}
		}
	}
}
