package shard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// plainNodes returns n active nodes over some zones in turn.
func plainNodes(n, zones int) (out []Node) {
	for i := range n {
		out = append(out, Node{ID: quota.NodeID(fmt.Sprintf("n%03d", i)), Zone: fmt.Sprint("z", i%zones)})
	}
	return out
}

// mustPlace calls Place, and fails the test on an error.
func mustPlace(t *testing.T, nodes []Node, ranges, replicas int, before []Placement) []Placement {
	t.Helper()
	got, err := Place(nodes, ranges, replicas, before)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// moved counts the replicas that nodes have to take over.
func moved(before, after []Placement) (n int) {
	for r := range after {
		for _, v := range after[r].Voters {
			if !slices.Contains(before[r].Voters, v) {
				n++
			}
		}
	}
	return n
}

func held(p []Placement, n quota.NodeID) (held int) {
	for _, p := range p {
		if slices.Contains(p.Voters, n) {
			held++
		}
	}
	return held
}

// TestMovement counts the replicas that move when one node joins or leaves: those that the new node then has, or that
// the old one had, and seldom one more.
func TestMovement(t *testing.T) {
	beyond := 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n, zones, replicas, ranges := 4+rng.IntN(10), 1, 3, 1+rng.IntN(64)
		if rng.IntN(2) == 0 { // zones of the same size, before and after
			zones, n = 3, 6+3*rng.IntN(3)
		}
		nodes := plainNodes(n, zones)
		rng.Shuffle(n, func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		before := mustPlace(t, nodes[1:], ranges, replicas, nil)
		with := mustPlace(t, nodes, ranges, replicas, before)
		if got, want := moved(before, with), held(with, nodes[0].ID); got != want {
			t.Errorf("seed %d: %d replicas move for a new node that holds %d", seed, got, want)
		}
		if got, most := moved(before, with), (ranges*replicas+n-1)/n; zones == 1 && got > most {
			t.Errorf("seed %d: %d replicas move when node %d joins %d ranges; want at most %d", seed, got, n, ranges, most)
		}
		for _, gone := range []NodeState{Leaving, Dead} {
			nodes[0].State = gone
			without := mustPlace(t, nodes, ranges, replicas, with)
			more := moved(with, without) - held(with, nodes[0].ID)
			if beyond += more; more > 1 {
				t.Errorf("seed %d: %d replicas move that were not on the node that goes", seed, more)
			}
		}
	}
	if beyond > 12 {
		t.Errorf("%d replicas move in 400 goings that were not on the node that goes", beyond)
	}
}

// TestLarge adds 56 nodes to the largest clusters.
func TestLarge(t *testing.T) {
	all := plainNodes(MaxNodes, 4)
	before := mustPlace(t, all[:200], MaxRanges, 3, nil)
	after := mustPlace(t, all, MaxRanges, 3, before)
	for _, n := range all {
		if got := held(after, n.ID); got != 3 {
			t.Errorf("%s holds %d ranges, want 3", n.ID, got)
		}
	}
	if got := moved(before, after); got != 3*56 {
		t.Errorf("%d replicas move, want what the new nodes hold: %d", got, 3*56)
	}
}

// TestHeirs checks that the load of a dead leader is shared by many: no other node is second voter in many more than
// its part of the ranges, in a cluster that has grown.
func TestHeirs(t *testing.T) {
	nodes := plainNodes(6, 1)
	var p []Placement
	for n := 1; n <= len(nodes); n++ {
		p = mustPlace(t, nodes[:n], 60, 3, p)
	}
	heirs := map[[2]quota.NodeID]int{}
	for _, p := range p {
		heirs[[2]quota.NodeID(p.Voters)]++
	}
	for _, a := range nodes {
		for _, b := range nodes {
			if n := heirs[[2]quota.NodeID{a.ID, b.ID}]; a != b && n > 3 {
				t.Errorf("%s is second in %d of the 10 ranges that %s leads, want 2 or 3 at most", b.ID, n, a.ID)
			}
		}
	}
}

// BenchmarkPlace repeats a placement without changes, the most frequent case.
func BenchmarkPlace(b *testing.B) {
	nodes := plainNodes(9, 3)
	before, err := Place(nodes, 64, 3, nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Place(nodes, 64, 3, before); err != nil {
			b.Fatal(err)
		}
	}
}
