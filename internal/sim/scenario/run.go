package scenario

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/sim"
)

// Run plays the scenario once. It leaves CPUSeconds to the caller, which has a clock. watch, if
// not nil, is called with the virtual time of every decision and must be fast.
func (s *Scenario) Run(a sim.Algorithm, seed uint64, watch func(at time.Duration)) Outcome {
	p := s.play(a, seed)
	if watch != nil {
		p.Decided = func(at time.Duration, _ int, _ string, _ quota.Decision, _ bool) { watch(at) }
	}
	r := sim.Run(p)
	return s.outcome(seed, &r)
}

// Playable returns the algorithms that can play the limit, Quorate first.
func (s *Scenario) Playable() []sim.Algorithm {
	return slices.DeleteFunc(sim.Algorithms(), func(a sim.Algorithm) bool { return s.Fits(a) != nil })
}

// Fits returns an error if the algorithm cannot play the scenario.
func (s *Scenario) Fits(a sim.Algorithm) error {
	if a != sim.Quorate && s.changes() {
		return fmt.Errorf("%s, which counts what passes; only %s can play refund, charge, resize, override and reset", a, sim.Quorate)
	}
	return a.Fits(&s.Limit)
}

// changes reports whether counts or the limit change other than by requests and time.
func (s *Scenario) changes() bool {
	return slices.ContainsFunc(s.Loads, func(l sim.Load) bool { return l.Refund > 0 || l.Charge }) ||
		slices.ContainsFunc(s.Faults, func(f sim.Fault) bool {
			return f.Kind == sim.Resize || f.Kind == sim.Override || f.Kind == sim.Reset
		})
}

// SetNodes sets the number of nodes. It returns an error if it is out of range or below the number
// of a node in the scenario.
func (s *Scenario) SetNodes(n int) error {
	if n < 1 || n > MaxNodes {
		return fmt.Errorf("%d: must be 1 to %d", n, MaxNodes)
	}
	if last := s.lastNode(); last > n {
		return fmt.Errorf("%d: %s names node %d; must be at least as many", n, s.Name, last)
	}
	s.Nodes = n
	return nil
}

// lastNode returns the highest node number in the scenario.
func (s *Scenario) lastNode() (last int) {
	see := func(nodes []int) {
		for _, n := range nodes {
			last = max(last, n)
		}
	}
	for _, l := range s.Loads {
		see(l.Spread.Nodes)
	}
	for _, f := range s.Faults {
		see(f.Nodes)
		for _, g := range f.Groups {
			see(g)
		}
	}
	return last
}

// SetSync sets the sync interval. It returns an error if it is out of range.
func (s *Scenario) SetSync(d time.Duration) error {
	if d < MinSync || d > MaxSync {
		return fmt.Errorf("%v: must be %v to %v", d, MinSync, MaxSync)
	}
	s.Sync = d
	return nil
}

// play returns the scenario in the simulator's form.
func (s *Scenario) play(a sim.Algorithm, seed uint64) sim.Scenario {
	skew := s.Skew
	if skew == 0 {
		skew = -1 // none; 0 would be the simulator's default
	}
	return sim.Scenario{
		Seed: seed, Nodes: s.Nodes, Duration: s.Duration, Sync: s.Sync, Limit: s.Limit,
		Delay: s.Network.Delay, Jitter: s.Network.Jitter, Loss: s.Network.Loss, Repeat: s.Network.Duplicate, Reorder: s.Network.Reorder,
		Loads: s.Loads, Faults: s.Faults, Keys: s.Keys, Entries: s.Entries, PerEntry: s.Service, Algorithm: a,
		Hop: s.Hop, Hold: s.Hold, Election: s.Election, Skew: skew, Drift: s.Drift, Check: true, Near: s.Near, Clients: s.Clients, Breaks: s.Breaks,
	}
}
