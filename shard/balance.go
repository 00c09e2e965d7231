package shard

import (
	"cmp"
	"slices"
)

// fit gives every range as many voters as it has seats: what is too much goes,
// what is missing is added, and the dead keep the seats that nobody takes.
func (l *layout) fit() {
	for r := range l.voters {
		for len(l.voters[r]) > l.seats[r] {
			l.drop(r, slices.MinFunc(l.voters[r], func(a, b int) int { return l.sooner(r, a, b) }))
		}
	}
	for r := range l.voters {
		for len(l.voters[r]) < l.seats[r] {
			free := slices.DeleteFunc(slices.Clone(l.active), func(i int) bool { return l.held[r][i] })
			if len(free) == 0 {
				break
			}
			l.add(r, slices.MinFunc(free, func(a, b int) int { return l.better(r, a, b) }))
		}
		l.dead[r] = l.dead[r][:min(len(l.dead[r]), l.seats[r]-len(l.voters[r]))]
	}
}

// sooner orders the voters of a range that has too many: first who must not
// lead, then who shares a zone, then who has much.
func (l *layout) sooner(r, a, b int) int {
	return cmp.Or(
		cmp.Compare(l.nodes[b].State, l.nodes[a].State),
		cmp.Compare(l.inZone(r, b), l.inZone(r, a)),
		cmp.Compare(l.load[b], l.load[a]),
		cmp.Compare(slices.Index(l.voters[r], b), slices.Index(l.voters[r], a)), // the preferred leader last
	)
}

// better orders the nodes that could be added to a range.
func (l *layout) better(r, a, b int) int {
	return cmp.Or(
		cmp.Compare(l.inZone(r, a), l.inZone(r, b)),
		cmp.Compare(l.load[a], l.load[b]),
		cmp.Compare(l.isRemoved(r, b), l.isRemoved(r, a)),
		cmp.Compare(l.together(r, a, -1), l.together(r, b, -1)),
		cmp.Compare(a, b),
	)
}

// isRemoved returns 1 for a node that probably has the range's data still.
func (l *layout) isRemoved(r, i int) int {
	if slices.Contains(l.before[r].Removed, l.nodes[i].ID) {
		return 1
	}
	return 0
}

// spreadZones moves replicas out of zones that hold two more than another that
// could take one, until no range has such a pair: then each is in as many zones
// as it can be, and as evenly.
func (l *layout) spreadZones() {
	for r := range l.voters {
		for l.spreadZone(r) {
		}
	}
}

func (l *layout) spreadZone(r int) bool {
	from, to := -1, -1
	for _, i := range l.active {
		held := l.held[r][i]
		if held && (from < 0 || cmp.Or(cmp.Compare(l.inZone(r, i), l.inZone(r, from)), cmp.Compare(l.load[i], l.load[from])) > 0) {
			from = i
		}
		if !held && (to < 0 || l.better(r, i, to) < 0) {
			to = i
		}
	}
	if from < 0 || to < 0 || l.inZone(r, to)+1 >= l.inZone(r, from) {
		return false
	}
	l.swap(r, from, to)
	return true
}

// neutral says whether a swap leaves a range as well spread over zones as it is.
func (l *layout) neutral(r, from, to int) bool {
	return l.zone[from] == l.zone[to] || l.inZone(r, to)+1 == l.inZone(r, from)
}

// balance moves replicas from nodes that have two more than others, as long as
// zones allow. Where they forbid the direct way there may be one over other
// nodes; path finds the shortest, so that as little as possible moves. When no
// way is left, no placement with the same spread over zones is more even.
func (l *layout) balance() {
	for l.balanceOnce() {
	}
}

func (l *layout) balanceOnce() bool {
	edges := l.moves()
	for _, from := range mostFirst(l.active, l.load) {
		way := path(from, l.active, l.load, edges)
		if way != nil && l.follow(way) {
			return true
		}
	}
	return false
}

// moves says from which node to which a replica could move.
func (l *layout) moves() [][]bool {
	edges := l.noEdges()
	for r, voters := range l.voters {
		for _, to := range l.active {
			if l.held[r][to] {
				continue
			}
			for _, from := range voters {
				edges[from][to] = edges[from][to] || l.neutral(r, from, to)
			}
		}
	}
	return edges
}

func (l *layout) noEdges() [][]bool {
	edges := make([][]bool, len(l.nodes))
	for i := range edges {
		edges[i] = make([]bool, len(l.nodes))
	}
	return edges
}

// follow moves a replica along a way, or none if a step has become impossible.
func (l *layout) follow(way []int) bool {
	done := make([]int, 0, len(way))
	for i := 1; i < len(way); i++ {
		r := l.canMove(way[i-1], way[i])
		if r < 0 {
			for j, r := range slices.Backward(done) {
				l.swap(r, way[j+1], way[j])
			}
			return false
		}
		l.swap(r, way[i-1], way[i])
		done = append(done, r)
	}
	return true
}

// canMove returns the range that is best moved from one node to another, or -1:
// rather one that the node does not lead, and whose voters the other meets
// least.
func (l *layout) canMove(from, to int) int {
	best, bestRank := -1, 0
	for r, voters := range l.voters {
		if !l.held[r][from] || l.held[r][to] || !l.neutral(r, from, to) {
			continue
		}
		rank := 2 * l.together(r, to, from)
		if voters[0] == from {
			rank++
		}
		if best < 0 || rank < bestRank {
			best, bestRank = r, rank
		}
	}
	return best
}
