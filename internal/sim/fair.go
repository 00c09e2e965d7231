package sim

import (
	"math"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// A node is starved if it gets less than a part of its fair share during uninterrupted demand.
// Shares of few tokens are ignored, because chance decides there; so are loads with clumps or costs
// above 1, where a member may hold tokens that are not enough for any request, loads that give back or charge, limits
// that are resized or reset, and bursts of few tokens that members must divide, as the linter says (local-small-burst).
const (
	starved    = .3
	starvesFor = 2 * time.Second
	leastShare = 20 // tokens in that time
	divisible  = 6  // least burst, in tokens, that members can divide
)

// slot is the resolution of a watch.
const slot = 100 * time.Millisecond

// watch records what every node is asked for and admits.
type watch struct {
	*run
	slots []slotOf
}

// slotOf is one time slot, by node.
type slotOf struct {
	tried, got []int64
	ideal      int64
	out        []bool // dead, paused, slow, refused, cut off or without a leader for a part of it
}

func (w *watch) at(i int) *slotOf {
	for len(w.slots) <= i {
		w.slots = append(w.slots, slotOf{tried: make([]int64, w.Nodes), got: make([]int64, w.Nodes), out: make([]bool, w.Nodes)})
	}
	return &w.slots[i]
}

func (w *watch) decided(at time.Duration, node int, _ string, d quota.Decision, ideal bool) {
	s := w.at(int(at / slot))
	s.tried[node-1]++
	if d.Allowed {
		s.got[node-1]++
	}
	if ideal {
		s.ideal++
	}
}

// look records at the end of a slot which nodes cannot be served. A leader without a majority can commit no promises,
// one that refuses connections receives no reports, and a node of which all announcements and beacons were lost knows
// no leader.
func (w *watch) look(i int) {
	s := w.at(i)
	lead := w.leading()
	for _, n := range w.nodes {
		s.out[n.i] = lead == nil || !w.canLead(lead) || n.dead || n.paused || n.slow > 0 || n.refused > 0 || n != lead && lead.refused > 0 || !w.connected(n, lead) || !w.knowsLeader(n)
	}
}

// knowsLeader reports whether a node knows the newest leader. Baselines have none.
func (w *watch) knowsLeader(n *node) bool {
	if w.baseline != nil {
		return true
	}
	_, term := n.agg.Leader(0)
	return int(term) == len(w.terms)
}

// play plays the run and calls look after every slot.
func (w *watch) play() {
	end := w.Start.Add(w.Duration + w.late)
	for i := 0; w.now < end; i++ {
		w.until(min(end, w.Start.Add(time.Duration(i+1)*slot)))
		w.look(i)
	}
}

// fair reports whether the fair-share property applies to the scenario.
func (j *judge) fair() bool {
	for i := range j.Loads {
		if l := &j.Loads[i]; !l.Look && (l.Clump > 1 || l.Cost > 1 || l.Charge || l.Refund > 0) {
			return false
		}
	}
	if j.Limit.Burst < divisible && !j.mayAsk {
		return false
	}
	return !j.varying && j.resets == 0 && j.Limit.Kind == quota.TokenBucket && len(j.tiers) == 1 && j.Keys.Count <= 1 && j.Nodes > 1 && !j.asks && j.waited <= j.Sync
}

// starving requires that no node that can be served gets less than a part of its fair share: of
// what the ideal admits or, after a death or a loss of a leader, of what is admitted. Under hard,
// what the dead may have spent is set aside and is in nobody's share. Neither is earlier
// over-admission within the soft bound, nor what a node used beyond its share while it could not be
// reached: an excess of 428 tokens at 100/s is repaid for 4 s, in which nobody has a share.
func (j *judge) starving(w *watch) {
	if !j.fair() {
		return
	}
	const long = int(starvesFor / slot)
	asked := false
	for from := 0; from+long <= len(w.slots); from += long / 4 {
		tried, got, all := w.sum(from, from+long)
		if len(j.terms) > 1 || j.processes() > j.Nodes {
			all = total(got)
		}
		all = min(all, w.owing(from, from+long))
		level := w.level(tried, got, all, from, from+long)
		for n := range j.Nodes {
			part := min(tried[n], level)
			if part < leastShare || !w.served(n, from, from+long) {
				continue
			}
			asked = true
			if got[n] < starved*part {
				j.holds(NoStarving, false, "node %d got %.0f of %.0f from %v to %v, its fair share was %.1f; all asked for %.0f and got %.0f",
					n+1, got[n], tried[n], time.Duration(from)*slot, time.Duration(from+long)*slot, part, tried, got)
				return
			}
		}
	}
	if asked {
		j.holds(NoStarving, true, "")
	}
}

// sum adds up slots. all is what there was to share: what the ideal admitted.
func (w *watch) sum(from, to int) (tried, got []float64, all float64) {
	tried, got = make([]float64, w.Nodes), make([]float64, w.Nodes)
	ideal := 0.0
	for _, s := range w.slots[from:to] {
		for n := range w.Nodes {
			tried[n] += float64(s.tried[n])
			got[n] += float64(s.got[n])
		}
		ideal += float64(s.ideal)
	}
	return tried, got, ideal
}

// owing returns the tokens left to share after earlier over-admission: what the ideal has admitted
// up to the end, less what was admitted before the interval.
func (w *watch) owing(from, to int) (left float64) {
	for i, s := range w.slots[:to] {
		left += float64(s.ideal)
		for n := range w.Nodes {
			if i < from {
				left -= float64(s.got[n])
			}
		}
	}
	return max(0, left)
}

// level returns the largest fair share, after subtracting what unreachable nodes used beyond it.
func (w *watch) level(tried, got []float64, all float64, from, to int) float64 {
	level := share(tried, all)
	for range w.Nodes { // each time it sinks, or stays
		left := all
		for n := range w.Nodes {
			if !w.reachable(n, from, to) {
				left -= max(0, got[n]-level)
			}
		}
		level = min(level, share(tried, max(0, left)))
	}
	return level
}

func total(v []float64) (sum float64) {
	for _, x := range v {
		sum += x
	}
	return sum
}

// reachable reports whether a node could be served, also during the second before.
func (w *watch) reachable(n, from, to int) bool {
	for i := max(0, from-10); i < to; i++ {
		if w.slots[i].out[n] {
			return false
		}
	}
	return true
}

// served reports whether a node had uninterrupted demand and could be served.
func (w *watch) served(n, from, to int) bool {
	if !w.reachable(n, from, to) {
		return false
	}
	for i := from; i < to; i += 2 {
		if w.slots[i].tried[n]+w.slots[i+1].tried[n] == 0 {
			return false
		}
	}
	return from >= 10
}

// share returns the largest share if all is divided max-min fairly by demand; infinite if there is
// enough.
func share(demand []float64, all float64) float64 {
	sorted := slices.Clone(demand)
	slices.Sort(sorted)
	for i, d := range sorted {
		if level := all / float64(len(sorted)-i); d > level {
			return level
		}
		all -= d
	}
	return math.Inf(1)
}
