package shard

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// world is a random cluster for the properties of Place and Next.
type world struct {
	t        *testing.T
	rng      *rand.Rand
	nodes    []Node
	ranges   int
	replicas int
	zones    int
	want     []Placement
	born     int
	mayGo    func(quota.NodeID) bool // nil: a leaving node may go from the list at any time
}

func newWorld(t *testing.T, seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 6))
	w := &world{t: t, rng: rng, ranges: 1 + rng.IntN(24), replicas: []int{1, 3, 3, 3, 5}[rng.IntN(5)], zones: 1 + rng.IntN(4)}
	for range 1 + rng.IntN(6) {
		w.join()
	}
	w.place()
	return w
}

func (w *world) join() {
	w.born++
	w.nodes = append(w.nodes, Node{ID: quota.NodeID(fmt.Sprintf("n%02d", w.born)), Zone: string(rune('a' + w.rng.IntN(w.zones)))})
}

// change is one thing that happens to the cluster.
func (w *world) change() {
	at := w.rng.IntN(len(w.nodes))
	state := NodeState(w.rng.IntN(4))
	switch k := w.rng.IntN(10); {
	case k < 4 && len(w.nodes) < 12:
		w.join()
	case k < 8:
		w.nodes[at].State = state
	case k < 9 && w.nodes[at].State == Leaving && (w.mayGo == nil || w.mayGo(w.nodes[at].ID)):
		w.nodes = slices.Delete(w.nodes, at, at+1)
	default:
		w.replicas = []int{1, 3, 5}[w.rng.IntN(3)]
	}
	if w.count(Active) == 0 {
		w.join()
	}
}

func (w *world) count(s NodeState) (n int) {
	for _, node := range w.nodes {
		if node.State == s {
			n++
		}
	}
	return n
}

func (w *world) state(id quota.NodeID) (NodeState, bool) {
	i := slices.IndexFunc(w.nodes, func(n Node) bool { return n.ID == id })
	if i < 0 {
		return Leaving, false
	}
	return w.nodes[i].State, true
}

// place asks for a placement and checks all that is promised of it.
func (w *world) place() {
	w.t.Helper()
	before := w.want
	got, err := Place(w.nodes, w.ranges, w.replicas, before)
	if err != nil {
		w.t.Fatalf("%v: %v", w.nodes, err)
	}
	w.want = got
	for r, p := range got {
		var was Placement
		if r < len(before) {
			was = before[r]
		}
		w.checkRange(r, was, p)
	}
	w.checkBalance(got)
	w.checkLeaders(got)

	w.rng.Shuffle(len(w.nodes), func(i, j int) { w.nodes[i], w.nodes[j] = w.nodes[j], w.nodes[i] })
	if again, _ := Place(w.nodes, w.ranges, w.replicas, before); !equal(again, got) {
		w.t.Fatalf("the order of nodes matters: %v, %v", again, got)
	}
	if again, _ := Place(w.nodes, w.ranges, w.replicas, got); !equal(again, got) {
		w.t.Fatalf("no change of nodes, but of the placement:\n%v\n%v\n%v", w.nodes, got, again)
	}
	if w.t.Failed() {
		w.t.Fatalf("nodes %v, replicas %d, before %v, got %v", w.nodes, w.replicas, before, got)
	}
}

func equal(a, b []Placement) bool {
	return slices.EqualFunc(a, b, func(a, b Placement) bool {
		return slices.Equal(a.Voters, b.Voters) && slices.Equal(a.Former, b.Former)
	})
}

func (w *world) checkRange(r int, was, p Placement) {
	w.t.Helper()
	usable, activeOut, deadIn := w.count(Active), w.count(Active), 0
	for i, id := range p.Voters {
		state, _ := w.state(id)
		old := slices.Contains(was.Voters, id)
		if slices.Contains(p.Voters[:i], id) || state == Leaving || state != Active && !old {
			w.t.Errorf("range %d: %v: voter %s is %v, and voted before: %v", r, p, id, state, old)
		}
		if state == Active {
			activeOut--
		}
		if state == Dead {
			deadIn++
		}
	}
	for i, id := range was.Voters {
		if s, _ := w.state(id); (s == Draining || s == Dead) && !slices.Contains(was.Voters[:i], id) {
			usable++
		}
		if s, _ := w.state(id); s == Draining && !slices.Contains(p.Voters, id) && len(p.Voters) >= len(was.Voters) {
			w.t.Errorf("range %d: %v: %s drains and was to keep its replica", r, p, id)
		}
	}
	seats := min(w.replicas, oddBelow(usable))
	if usable == 2 && w.replicas > 1 && len(was.Voters) > 1 {
		seats = 2
	}
	if len(p.Voters) != seats {
		w.t.Errorf("range %d: %d voters, want %d; before %v", r, len(p.Voters), seats, was)
	}
	if deadIn > 0 && activeOut > 0 {
		w.t.Errorf("range %d: %v: a dead node keeps a seat that somebody could take", r, p)
	}
	for _, id := range slices.Concat(was.Voters, was.Former) {
		if slices.Contains(p.Voters, id) == slices.Contains(p.Former, id) {
			w.t.Errorf("range %d: %s has to be a voter or former: %v", r, id, p)
		}
	}
	if got, want := w.cost(w.subset(p.Voters)), w.cost(w.ideal(p, 0, 1)); got != want {
		w.t.Errorf("range %d: %v: spread over zones %d, could be %d", r, p, got, want)
	}
}

// subset returns nodes that are not dead as a set of indices into w.nodes.
func (w *world) subset(ids []quota.NodeID) (set uint32) {
	for i, n := range w.nodes {
		if slices.Contains(ids, n.ID) && n.State != Dead {
			set |= 1 << i
		}
	}
	return set
}

// cost is lower, the better a set is spread over zones.
func (w *world) cost(set uint32) (sum int) {
	for zone := range w.zones {
		n := w.inZone(set, string(rune('a'+zone)))
		sum += n * n
	}
	return sum
}

func (w *world) inZone(set uint32, zone string) (n int) {
	for i, node := range w.nodes {
		if set&(1<<i) != 0 && node.Zone == zone {
			n++
		}
	}
	return n
}

// ideal returns one of the best spread sets of voters that a range could have,
// its draining voters given, and among these one with the fewest (sign 1) or most
// (sign -1) of some nodes. Greedy is exact: the sets are the bases of a
// matroid.
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

// checkBalance holds the replicas of active nodes to the best that any
// placement with this spread could have: for every set of nodes, what the
// ranges must or can put there.
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
		known := map[string]bound{} // ranges differ by what drains there
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

// sameZones says whether nothing stands in the way of even loads.
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

// checkLeaders does the same for preferred leaders, with the voters given.
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

// extremes returns the least and the most that an active node has.
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

// TestPlaceProperties lets random things happen to random clusters.
func TestPlaceProperties(t *testing.T) {
	for seed := range uint64(300) {
		w := newWorld(t, seed)
		for range 8 {
			w.change()
			w.place()
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func TestPlaceRefuses(t *testing.T) {
	ok := []Node{{ID: "a"}}
	for _, tc := range []struct {
		nodes            []Node
		ranges, replicas int
		before           []Placement
		want             string
	}{
		{nil, 1, 1, nil, "nodes: 0; need 1 to 256"},
		{ok, 0, 1, nil, "ranges: 0; need 1 to 256"},
		{ok, 257, 1, nil, "ranges: 257; need 1 to 256"},
		{ok, 1, 2, nil, "replicas: 2; must be odd"},
		{ok, 1, -1, nil, "replicas: -1; must be odd"},
		{ok, 1, 1, make([]Placement, 2), "before: 2 placements of 1 ranges"},
		{[]Node{{ID: "a"}, {ID: "a"}}, 1, 1, nil, `nodes: "a" is there twice`},
		{[]Node{{}}, 1, 1, nil, "nodes: one has no id"},
		{[]Node{{ID: "a", State: 9}}, 1, 1, nil, `nodes: the state of "a" is 9; need 0 to 3`},
		{[]Node{{ID: "a", State: Leaving}}, 1, 1, nil, "nodes: none is active, and range 0 has nowhere to go; need an active node"},
	} {
		if _, err := Place(tc.nodes, tc.ranges, tc.replicas, tc.before); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Place(%v, %d, %d) = %v, want %q", tc.nodes, tc.ranges, tc.replicas, err, tc.want)
		}
	}
}
