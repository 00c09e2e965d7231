package shard

import (
	"cmp"
	"slices"
)

// fit gives every range its number of voters: it drops surplus voters and adds missing ones. Dead nodes stay voters
// where no active node can take their place.
func (l *layout) fit() {
	for r := range l.voters {
		for len(l.voters[r]) > l.wanted[r] {
			// First nodes that must not lead, then those that share a zone, then those with many replicas.
			l.drop(r, slices.MinFunc(l.voters[r], func(a, b int) int {
				return cmp.Or(
					cmp.Compare(l.nodes[b].State, l.nodes[a].State),
					cmp.Compare(l.inZone(r, b), l.inZone(r, a)),
					cmp.Compare(l.load[b], l.load[a]),
					cmp.Compare(slices.Index(l.voters[r], b), slices.Index(l.voters[r], a)), // the preferred leader last
				)
			}))
		}
	}
	for r := range l.voters {
		for len(l.voters[r]) < l.wanted[r] {
			free := slices.DeleteFunc(slices.Clone(l.active), func(i int) bool { return l.held[r][i] })
			if len(free) == 0 {
				break
			}
			l.add(r, slices.MinFunc(free, func(a, b int) int { return l.better(r, a, b) }))
		}
		l.dead[r] = l.dead[r][:min(len(l.dead[r]), l.wanted[r]-len(l.voters[r]))]
	}
}

// better orders the candidates for a range, best first.
func (l *layout) better(r, a, b int) int {
	return cmp.Or(
		cmp.Compare(l.inZone(r, a), l.inZone(r, b)),
		cmp.Compare(l.load[a], l.load[b]),
		cmp.Compare(l.isRemoved(r, b), l.isRemoved(r, a)),
		cmp.Compare(l.together(r, a, -1), l.together(r, b, -1)),
		cmp.Compare(a, b),
	)
}

// isRemoved returns 1 for a node that probably still has the range's data, else 0.
func (l *layout) isRemoved(r, i int) int {
	if slices.Contains(l.before[r].Removed, l.nodes[i].ID) {
		return 1
	}
	return 0
}

// spreadZone moves a replica of the range out of a zone that has at least two more than another zone
// that could take one. It reports whether it did. Once no range has such a pair, each range is in as
// many zones as possible, evenly.
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

// neutral reports whether a swap keeps the range's spread over zones as it is.
func (l *layout) neutral(r, from, to int) bool {
	return l.zone[from] == l.zone[to] || l.inZone(r, to)+1 == l.inZone(r, from)
}

// balance moves replicas from nodes that have at least two more than others, as far as zones allow.
// If zones forbid the direct move, there may be a path over other nodes; path finds the shortest,
// so that as few replicas as possible move. If no path is left, no placement with the same spread
// over zones is more even.
func (l *layout) balance() {
	for l.balanceOnce() {
	}
}

func (l *layout) balanceOnce() bool {
	edges := l.moves()
	for _, from := range byCountDescending(l.active, l.load) {
		way := path(from, l.active, l.load, edges)
		if way != nil && l.follow(way) {
			return true
		}
	}
	return false
}

// moves returns the matrix of moves: from which node a replica could move to which.
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

// follow moves a replica along each edge of the path, or changes nothing if an edge has become
// impossible.
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

// canMove returns the range that is best moved from one node to another, or -1. It prefers ranges
// that from does not lead, and those whose voters share few ranges with to.
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

// byCountDescending sorts nodes by their counts, highest first.
func byCountDescending(nodes, has []int) []int {
	return slices.SortedStableFunc(slices.Values(nodes), func(a, b int) int { return cmp.Compare(has[b], has[a]) })
}

// path returns the shortest path from a node to one with the smallest reachable count, at least two
// less, or nil without such a node.
func path(from int, nodes, has []int, edges [][]bool) []int {
	least := slices.MinFunc(nodes, func(a, b int) int { return cmp.Compare(has[a], has[b]) })
	if has[least]+2 > has[from] {
		return nil
	}
	came, queue, best := map[int]int{from: from}, []int{from}, from
	for len(queue) > 0 && has[best] > has[least] {
		at := queue[0]
		queue = queue[1:]
		for _, next := range nodes {
			if _, seen := came[next]; seen || !edges[at][next] {
				continue
			}
			came[next] = at
			queue = append(queue, next)
			if has[next] < has[best] {
				best = next
			}
		}
	}
	if has[best]+2 > has[from] {
		return nil
	}
	way := []int{best}
	for way[0] != from {
		way = slices.Insert(way, 0, came[way[0]])
	}
	return way
}
