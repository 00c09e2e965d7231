package shard

import (
	"fmt"
	"math/bits"
	"slices"
)

// ideal returns one of the best spread sets of voters that a range could have, with its draining voters given, and
// among these one with the fewest (sign 1) or most (sign -1) of some nodes. Greedy is exact: the sets are the bases
// of a matroid.
func (w *world) ideal(p Placement, some uint32, sign int) uint32 {
	live := w.subset(p.Voters)
	set := live
	for i, n := range w.nodes {
		if n.State != Draining {
			set &^= 1 << i
		}
	}
	for bits.OnesCount32(set) < bits.OnesCount32(live) {
		best, bestCost := -1, 0
		for i, n := range w.nodes {
			if n.State != Active || set&(1<<i) != 0 {
				continue
			}
			cost := 4 * w.inZone(set, n.Zone)
			if some&(1<<i) != 0 {
				cost += sign
			}
			if best < 0 || cost < bestCost {
				best, bestCost = i, cost
			}
		}
		set |= 1 << best
	}
	return set
}

// checkBalance compares the replicas of active nodes with the best possible placement of this spread: for every set
// of nodes, the numbers of replicas that ranges must and can place there.
func (w *world) checkBalance(got []Placement) {
	w.t.Helper()
	lo, hi := w.extremes(func(i int) (n int) {
		for _, p := range got {
			if slices.Contains(p.Voters, w.nodes[i].ID) {
				n++
			}
		}
		return n
	})
	wantLo, wantHi := 1<<30, 0
	w.sets(func(set uint32, size int) {
		must, can := 0, 0
		type bound struct{ must, can int }
		known := map[string]bound{} // ranges differ by their draining voters
		for _, p := range got {
			kind := fmt.Sprint(w.drainers(p), bits.OnesCount32(w.subset(p.Voters)))
			b, ok := known[kind]
			if !ok {
				b = bound{bits.OnesCount32(w.ideal(p, set, 1) & set), bits.OnesCount32(w.ideal(p, set, -1) & set)}
				known[kind] = b
			}
			must, can = must+b.must, can+b.can
		}
		wantHi, wantLo = max(wantHi, (must+size-1)/size), min(wantLo, can/size)
	})
	if lo != wantLo || hi != wantHi {
		w.t.Errorf("active nodes have %d to %d replicas, could have %d to %d", lo, hi, wantLo, wantHi)
	}
	if w.sameZones() && hi-lo > 1 {
		w.t.Errorf("zones are of the same size, but active nodes have %d to %d replicas", lo, hi)
	}
}

func (w *world) drainers(p Placement) (set uint32) {
	for i, n := range w.nodes {
		if n.State == Draining && slices.Contains(p.Voters, n.ID) {
			set |= 1 << i
		}
	}
	return set
}

// sameZones reports whether zones permit even loads.
func (w *world) sameZones() bool {
	sizes := map[string]int{}
	for _, n := range w.nodes {
		if n.State == Draining {
			return false
		}
		if n.State == Active {
			sizes[n.Zone]++
		}
	}
	first := 0
	for _, s := range sizes {
		if first != 0 && s != first {
			return false
		}
		first = s
	}
	return true
}

// checkLeaders does the same for preferred leaders, with the given voters.
func (w *world) checkLeaders(got []Placement) {
	w.t.Helper()
	lo, hi := w.extremes(func(i int) (n int) {
		for _, p := range got {
			if p.Voters[0] == w.nodes[i].ID {
				n++
			}
		}
		return n
	})
	wantLo, wantHi := 1<<30, 0
	w.sets(func(set uint32, size int) {
		inside, touching := 0, 0
		for _, p := range got {
			could := w.subset(p.Voters) &^ w.drainers(p)
			if could != 0 && could&^set == 0 {
				inside++
			}
			if could&set != 0 {
				touching++
			}
		}
		wantHi, wantLo = max(wantHi, (inside+size-1)/size), min(wantLo, touching/size)
	})
	if lo != wantLo || hi != wantHi {
		w.t.Errorf("active nodes lead %d to %d ranges, could lead %d to %d", lo, hi, wantLo, wantHi)
	}
	if w.count(Draining) == 0 && hi-lo > 1 {
		w.t.Errorf("active nodes lead %d to %d ranges: %v", lo, hi, w.nodes)
	}
	for r, p := range got {
		if s, _ := w.state(p.Voters[0]); s != Active && w.subset(p.Voters)&^w.drainers(p) != 0 {
			w.t.Errorf("range %d: %s is to lead and is %v", r, p.Voters[0], s)
		}
	}
}

// extremes returns the smallest and the largest count of an active node.
func (w *world) extremes(has func(i int) int) (lo, hi int) {
	lo = 1 << 30
	for i, n := range w.nodes {
		if n.State == Active {
			lo, hi = min(lo, has(i)), max(hi, has(i))
		}
	}
	return lo, hi
}

// sets calls f with every set of active nodes that is not empty.
func (w *world) sets(f func(set uint32, size int)) {
	var active uint32
	for i, n := range w.nodes {
		if n.State == Active {
			active |= 1 << i
		}
	}
	for set := active; set != 0; set = (set - 1) & active {
		f(set, bits.OnesCount32(set))
	}
}
