package shard

import (
	"cmp"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// layout is a placement in the making. Nodes and zones are numbers here: nodes
// in the order of their ids, so that the order of the arguments is no matter.
type layout struct {
	nodes  []Node
	zone   []int // of each node
	active []int // the nodes that take replicas
	seats  []int // how many voters each range is to have
	before []Placement
	voters [][]int  // of each range, without the dead, preferred leader first
	held   [][]bool // of each range and node: whether it is in voters
	zoned  [][]int  // of each range and zone: how many of voters are in it
	dead   [][]int  // of each range: dead voters, of which fit keeps those that nobody replaces
	load   []int    // replicas of each node, the dead's not counted
	pairs  [][]int  // in how many ranges two nodes are together
}

func newLayout(nodes []Node, ranges int) *layout {
	l := &layout{
		nodes: slices.SortedFunc(slices.Values(nodes), func(a, b Node) int { return cmp.Compare(a.ID, b.ID) }),
		zone:  make([]int, len(nodes)), load: make([]int, len(nodes)), pairs: make([][]int, len(nodes)),
		seats: make([]int, ranges), before: make([]Placement, ranges), voters: make([][]int, ranges), dead: make([][]int, ranges),
		held: make([][]bool, ranges), zoned: make([][]int, ranges),
	}
	zones := map[string]int{}
	for i, n := range l.nodes {
		if _, ok := zones[n.Zone]; !ok {
			zones[n.Zone] = len(zones)
		}
		l.zone[i], l.pairs[i] = zones[n.Zone], make([]int, len(nodes))
		if n.State == Active {
			l.active = append(l.active, i)
		}
	}
	for r := range ranges {
		l.held[r], l.zoned[r] = make([]bool, len(nodes)), make([]int, len(zones))
	}
	return l
}

// find returns the number of a node, and false if it is not listed.
func (l *layout) find(id quota.NodeID) (int, bool) {
	return slices.BinarySearchFunc(l.nodes, id, func(n Node, id quota.NodeID) int { return strings.Compare(string(n.ID), string(id)) })
}

// keep takes over the voters of a range that need not leave it.
func (l *layout) keep(r int, before Placement) {
	l.before[r] = before
	for _, id := range before.Voters {
		i, ok := l.find(id)
		if !ok || l.held[r][i] || slices.Contains(l.dead[r], i) {
			continue
		}
		switch l.nodes[i].State {
		case Active, Draining:
			l.add(r, i)
		case Dead:
			l.dead[r] = append(l.dead[r], i)
		case Leaving:
		}
	}
}

// setSeats decides how many voters a range is to have: an odd number. Two
// only where more than one voted before and two nodes are left: the count that
// both have is safer than the count that one has. It says no if the range has
// nowhere to go: nobody is there to vote but nodes that leave, and the dead.
func (l *layout) setSeats(r, replicas int) bool {
	live := len(l.active)
	for _, i := range l.voters[r] {
		if l.nodes[i].State == Draining {
			live++
		}
	}
	usable := live + len(l.dead[r])
	l.seats[r] = max(0, min(replicas, oddBelow(usable)))
	if usable == 2 && replicas > 1 && len(l.before[r].Voters) > 1 {
		l.seats[r] = 2
	}
	return live > 0 || usable > 0 && !slices.ContainsFunc(l.before[r].Voters, l.leaves)
}

// leaves says whether a node gives everything away.
func (l *layout) leaves(id quota.NodeID) bool {
	i, ok := l.find(id)
	return !ok || l.nodes[i].State == Leaving
}

func (l *layout) add(r, i int) {
	for _, other := range l.voters[r] {
		l.pairs[i][other]++
		l.pairs[other][i]++
	}
	l.voters[r] = append(l.voters[r], i)
	l.held[r][i] = true
	l.zoned[r][l.zone[i]]++
	l.load[i]++
}

func (l *layout) drop(r, i int) {
	l.voters[r] = slices.DeleteFunc(l.voters[r], func(v int) bool { return v == i })
	for _, other := range l.voters[r] {
		l.pairs[i][other]--
		l.pairs[other][i]--
	}
	l.held[r][i] = false
	l.zoned[r][l.zone[i]]--
	l.load[i]--
}

// swap gives the replica of one node to another.
func (l *layout) swap(r, from, to int) {
	l.drop(r, from)
	l.add(r, to)
}

// inZone returns how many of a range's voters share a node's zone.
func (l *layout) inZone(r, i int) int { return l.zoned[r][l.zone[i]] }

// together returns in how many ranges a node already meets the voters of a
// range, one of them left out. Where it is low, the work of a dead node falls
// on many.
func (l *layout) together(r, i, without int) (n int) {
	for _, v := range l.voters[r] {
		if v != without {
			n += l.pairs[i][v]
		}
	}
	return n
}

// placement returns what is wanted of a range: active voters first.
func (l *layout) placement(r int) Placement {
	var p Placement
	for _, state := range []NodeState{Active, Draining} {
		for _, i := range l.voters[r] {
			if l.nodes[i].State == state {
				p.Voters = append(p.Voters, l.nodes[i].ID)
			}
		}
	}
	for _, i := range l.dead[r] {
		p.Voters = append(p.Voters, l.nodes[i].ID)
	}
	for _, id := range slices.Concat(l.before[r].Removed, l.before[r].Voters) {
		if !slices.Contains(p.Voters, id) {
			p.Removed = append(p.Removed, id)
		}
	}
	slices.Sort(p.Removed)
	p.Removed = slices.Compact(p.Removed)
	return p
}
