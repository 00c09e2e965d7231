package shard

import (
	"cmp"
	"slices"
)

// mostFirst returns nodes by what they have, most first.
func mostFirst(nodes, has []int) []int {
	return slices.SortedStableFunc(slices.Values(nodes), func(a, b int) int { return cmp.Compare(has[b], has[a]) })
}

// path returns the shortest way from a node to one of those that have least
// and at least two less; nil if there is none.
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
