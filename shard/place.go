package shard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// MaxNodes bounds a cluster for placement; its cost grows with nodes times
// ranges.
const MaxNodes = 256

// NodeState says what placement may do with a node.
type NodeState uint8

// The states of a node.
const (
	Active   NodeState = iota // takes replicas and leaders
	Draining                  // keeps its replicas, takes no new ones and leads nothing that another voter could lead
	Leaving                   // gives everything away, on somebody's wish; nodes that are not listed count as leaving
	Dead                      // found dead: its replicas are replaced as far as there is somebody to take them
)

func (s NodeState) String() string { return nameOf(s, "active", "draining", "leaving", "dead") }

// Node is what placement knows of a node. Nodes without a zone are in one
// zone, that of the empty name.
type Node struct {
	ID    quota.NodeID
	Zone  string
	State NodeState
}

// Placement is what is wanted of one group.
type Placement struct {
	Voters []quota.NodeID // preferred leader first, then who should follow it
	Removed []quota.NodeID // nodes that still have to leave the group, sorted; forgotten, they may delete its data
}

// Forget returns the placement without a removed node: it has left the
// group. The receiver stays as it is.
func (p Placement) Forget(n quota.NodeID) Placement {
	p.Removed = slices.DeleteFunc(slices.Clone(p.Removed), func(f quota.NodeID) bool { return f == n })
	return p
}

// Place returns what is wanted of each range, given what was wanted so far;
// entries of before that are missing or without voters stand for ranges that
// nobody holds yet. It changes none of its arguments. The doc of the package
// says what it promises. It fails where the arguments make no sense, and where
// a range has nowhere to go because no node is active.
func Place(nodes []Node, ranges, replicas int, before []Placement) ([]Placement, error) {
	if err := checkPlace(nodes, ranges, replicas, before); err != nil {
		return nil, err
	}
	l := newLayout(nodes, ranges)
	for r := range ranges {
		if r < len(before) {
			l.keep(r, before[r])
		}
		if !l.setSeats(r, replicas) {
			return nil, fmt.Errorf("nodes: none is active, and range %d has nowhere to go; need an active node", r)
		}
	}
	l.fit()
	l.spreadZones()
	l.balance()
	l.spreadLeaders()
	out := make([]Placement, ranges)
	for r := range out {
		out[r] = l.placement(r)
	}
	return out, nil
}

// PlaceMeta says who votes in the meta group, most wanted leader first: as many
// as asked for (1, 3 or 5), by the rules of Place for one range; all other nodes
// are non-voters. Who votes already goes on where the rules allow. Without any
// node that could vote, or with an even number of voters, the answer is what was
// before.
func PlaceMeta(nodes []Node, voters int, before []quota.NodeID) []quota.NodeID {
	p, err := Place(nodes, 1, voters, []Placement{{Voters: before}})
	if err != nil {
		return slices.Clone(before)
	}
	return p[0].Voters
}

func checkPlace(nodes []Node, ranges, replicas int, before []Placement) error {
	switch {
	case len(nodes) == 0 || len(nodes) > MaxNodes:
		return fmt.Errorf("nodes: %d; need 1 to %d", len(nodes), MaxNodes)
	case ranges < 1 || ranges > MaxRanges:
		return fmt.Errorf("ranges: %d; need 1 to %d", ranges, MaxRanges)
	case len(before) > ranges:
		return fmt.Errorf("before: %d placements of %d ranges", len(before), ranges)
	case replicas < 1 || replicas%2 == 0:
		return fmt.Errorf("replicas: %d; must be odd", replicas)
	}
	seen := map[quota.NodeID]bool{}
	for _, n := range nodes {
		switch {
		case seen[n.ID]:
			return fmt.Errorf("nodes: %q is there twice", n.ID)
		case n.ID == "":
			return fmt.Errorf("nodes: one has no id")
		case n.State > Dead:
			return fmt.Errorf("nodes: the state of %q is %d; need 0 to %d", n.ID, n.State, Dead)
		}
		seen[n.ID] = true
	}
	return nil
}

// nameOf returns a word for a number.
func nameOf[T ~uint8](v T, names ...string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%d (one of %s)", uint8(v), strings.Join(names, ", "))
}
