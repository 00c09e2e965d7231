package shard

import (
	"fmt"
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
	mayGo    func(quota.NodeID) bool // nil: a leaving node may leave the list at any time
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

// change is one event in the cluster.
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

// place calls Place and checks all its guarantees.
func (w *world) place() {
	w.t.Helper()
	before := w.want
	got, err := Place(w.nodes, w.ranges, w.replicas, before)
	if err != nil {
		w.t.Fatalf("%v: %v", w.nodes, err)
	}
	w.want = got
	w.checkDeaths(before, got)
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
		return slices.Equal(a.Voters, b.Voters) && slices.Equal(a.Removed, b.Removed)
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
	for _, id := range slices.Concat(was.Voters, was.Removed) {
		if slices.Contains(p.Voters, id) == slices.Contains(p.Removed, id) {
			w.t.Errorf("range %d: %s has to be a voter or removed: %v", r, id, p)
		}
	}
	if got, want := w.cost(w.subset(p.Voters)), w.cost(w.ideal(p, 0, 1)); got != want {
		w.t.Errorf("range %d: %v: spread over zones %d, could be %d", r, p, got, want)
	}
}

// checkDeaths checks that only a request makes a range smaller.
func (w *world) checkDeaths(before, got []Placement) {
	w.t.Helper()
	for r, p := range before {
		wish := len(p.Voters) > w.replicas || slices.ContainsFunc(p.Voters, func(n quota.NodeID) bool {
			s, _ := w.state(n)
			return s == Leaving
		})
		if !wish && len(got[r].Voters) < len(p.Voters) {
			w.t.Errorf("range %d: %d voters, had %d, and nobody leaves", r, len(got[r].Voters), len(p.Voters))
		}
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

// TestPlaceProperties plays random events in random clusters.
func TestPlaceProperties(t *testing.T) {
	for seed := range uint64(150) {
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
		{[]Node{{ID: "a"}, {ID: "a"}}, 1, 1, nil, `nodes: duplicate "a"`},
		{[]Node{{}}, 1, 1, nil, "nodes: one has no id"},
		{[]Node{{ID: "a", State: 9}}, 1, 1, nil, `nodes: the state of "a" is 9; need 0 to 3`},
		{[]Node{{ID: "a", State: Leaving}}, 1, 1, nil, "nodes: none is active, and range 0 has nowhere to go; need an active node"},
		{[]Node{{ID: "a", State: Leaving}, {ID: "b", State: Dead}}, 1, 3, []Placement{{Voters: []quota.NodeID{"a", "b"}}}, "range 0 has nowhere to go"},
	} {
		if _, err := Place(tc.nodes, tc.ranges, tc.replicas, tc.before); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Place(%v, %d, %d) = %v, want %q", tc.nodes, tc.ranges, tc.replicas, err, tc.want)
		}
	}
}
