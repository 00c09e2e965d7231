package shard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// MaxNodes bounds a cluster. The cost of placement grows with nodes times ranges.
const MaxNodes = 256

// NodeState determines the role of a node in placement.
type NodeState uint8

// The states of a node.
const (
	Active   NodeState = iota // takes replicas and leaders
	Draining                  // keeps its replicas, takes no new ones, and leads only if no other voter can
	Leaving                   // gives up all replicas, on request; unlisted nodes count as leaving
	Dead                      // considered dead: its replicas are replaced as far as nodes are available
)

func (s NodeState) String() string { return nameOf(s, "active", "draining", "leaving", "dead") }

// Node describes a node to placement. Nodes without a zone are in the zone with the empty name.
type Node struct {
	ID    quota.NodeID
	Zone  string
	State NodeState
}

// Placement is the wanted placement of one group.
type Placement struct {
	Voters  []quota.NodeID // preferred leader first, then its successor
	Removed []quota.NodeID // nodes that have yet to leave the group, sorted; once forgotten they may delete its data
}

// Forget returns a copy without a removed node, which has left the group.
func (p Placement) Forget(n quota.NodeID) Placement {
	p.Removed = slices.DeleteFunc(slices.Clone(p.Removed), func(f quota.NodeID) bool { return f == n })
	return p
}

// Place returns the wanted placement of each range, given the previous ones. Entries of before that are missing or
// without voters are ranges that no node holds yet. Place does not modify its arguments. The package comment lists
// its guarantees. It returns an error for invalid arguments, and if a range has no place because no node is active.
func Place(nodes []Node, ranges, replicas int, before []Placement) ([]Placement, error) {
	if err := checkPlace(nodes, ranges, replicas, before); err != nil {
		return nil, err
	}
	l := newLayout(nodes, ranges)
	for r := range ranges {
		if r < len(before) {
			l.keep(r, before[r])
		}
		if !l.setWanted(r, replicas) {
			return nil, fmt.Errorf("nodes: none is active, and range %d has nowhere to go; need an active node", r)
		}
	}
	l.fit()
	for r := range l.voters {
		for l.spreadZone(r) {
		}
	}
	l.balance()
	l.spreadLeaders()
	out := make([]Placement, ranges)
	for r := range out {
		out[r] = l.placement(r)
	}
	return out, nil
}

// PlaceMeta returns the voters of the meta group, preferred leader first: as many as configured (1,
// 3 or 5), by the rules of Place for one range. All other nodes are non-voters. Current voters stay
// if the rules allow. If no node can vote or the number is even, the result is before.
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
			return fmt.Errorf("nodes: duplicate %q", n.ID)
		case n.ID == "":
			return fmt.Errorf("nodes: one has no id")
		case n.State > Dead:
			return fmt.Errorf("nodes: the state of %q is %d; need 0 to %d", n.ID, n.State, Dead)
		}
		seen[n.ID] = true
	}
	return nil
}

func nameOf[T ~uint8](v T, names ...string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%d (one of %s)", uint8(v), strings.Join(names, ", "))
}
