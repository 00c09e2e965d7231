package scenario

import (
	"github.com/quorate/quorate/internal/sim"
)

// Run plays the scenario once. CPUSeconds is left to the caller, who has a
// clock.
func (s *Scenario) Run(a sim.Algorithm, seed uint64) Outcome {
	r := sim.Run(s.play(a, seed))
	return s.outcome(seed, &r)
}

// play is the scenario as the simulator takes it.
func (s *Scenario) play(a sim.Algorithm, seed uint64) sim.Scenario {
	skew := s.Skew
	if skew == 0 {
		skew = -1 // none; 0 would be the simulator's default
	}
	return sim.Scenario{
		Seed: seed, Nodes: s.Nodes, Duration: s.Duration, Sync: s.Sync, Limit: s.Limit,
		Delay: s.Network.Delay, Jitter: s.Network.Jitter, Loss: s.Network.Loss, Repeat: s.Network.Duplicate, Reorder: s.Network.Reorder,
		Loads: s.Loads, Faults: s.Faults, Keys: s.Keys, Algorithm: a,
		Hop: s.Hop, Hold: s.Hold, Election: s.Election, Skew: skew, Drift: s.Drift, Check: true,
	}
}
