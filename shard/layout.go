package shard

import (
	"cmp"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// layout is a placement under construction. Nodes are numbered in the order of their IDs, so the
// order of the arguments does not matter; zones are numbered too.
type layout struct {
	nodes  []Node
	zone   []int // zone of each node
	active []int // nodes that take replicas
	wanted []int // wanted number of voters of each range
	before []Placement
	voters [][]int  // by range, without dead nodes, preferred leader first
	held   [][]bool // by range and node: whether it is in voters
	zoned  [][]int  // by range and zone: number of voters
	dead   [][]int  // by range: dead voters; fit keeps those that no node replaces
	load   []int    // replicas of each node, except of dead ones
	pairs  [][]int  // number of ranges that two nodes share
}

func newLayout(nodes []Node, ranges int) *layout {
	l := &layout{
		nodes: slices.SortedFunc(slices.Values(nodes), func(a, b Node) int { return cmp.Compare(a.ID, b.ID) }),
		zone:  make([]int, len(nodes)), load: make([]int, len(nodes)), pairs: make([][]int, len(nodes)),
		wanted: make([]int, ranges), before: make([]Placement, ranges), voters: make([][]int, ranges), dead: make([][]int, ranges),
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

// find returns the number of a node, and whether it is listed.
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

// setWanted decides the number of voters of a range. It is odd, or two if more than one voted before and two nodes
// are left: a count on two nodes is safer than on one. It returns false if only leaving and dead nodes can vote.
func (l *layout) setWanted(r, replicas int) bool {
	live := len(l.active)
	for _, i := range l.voters[r] {
		if l.nodes[i].State == Draining {
			live++
		}
	}
	usable := live + len(l.dead[r])
	l.wanted[r] = max(0, min(replicas, oddBelow(usable)))
	if usable == 2 && replicas > 1 && len(l.before[r].Voters) > 1 {
		l.wanted[r] = 2
	}
	return live > 0 || usable > 0 && !slices.ContainsFunc(l.before[r].Voters, l.leaves)
}

// leaves reports whether a node gives up all its replicas.
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

// swap moves the replica of one node to another.
func (l *layout) swap(r, from, to int) {
	l.drop(r, from)
	l.add(r, to)
}

// inZone returns how many of a range's voters are in the node's zone.
func (l *layout) inZone(r, i int) int { return l.zoned[r][l.zone[i]] }

// together returns how often a node shares a range with the voters of range r, except without. If it is low, the load
// of a dead node is shared by many.
func (l *layout) together(r, i, without int) (n int) {
	for _, v := range l.voters[r] {
		if v != without {
			n += l.pairs[i][v]
		}
	}
	return n
}

// placement returns the wanted placement of a range, active voters first.
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
