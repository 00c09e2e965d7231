package shard

import "slices"

// spreadLeaders orders the voters so that every active node is the preferred leader of about the
// same number of ranges. Then it does the same for the second voters of each leader's ranges: if
// the leader dies, its load is shared by many. Both are as even as the voters allow.
func (l *layout) spreadLeaders() {
	all, led := make([]int, len(l.voters)), make([][]int, len(l.nodes))
	for r := range all {
		all[r] = r
	}
	l.spread(all, 0)
	for r, voters := range l.voters {
		if len(voters) > 2 {
			led[voters[0]] = append(led[voters[0]], r)
		}
	}
	for _, ranges := range led {
		l.spread(ranges, 1)
	}
}

// spread chooses the voter at a place of each of the ranges, among the active voters from that
// place on, so that every node is chosen about equally often.
func (l *layout) spread(ranges []int, place int) {
	has := make([]int, len(l.nodes))
	for _, r := range ranges {
		if voters := l.voters[r]; len(voters) > place && l.nodes[voters[place]].State == Active {
			has[voters[place]]++
		} else if i := l.leastOf(voters[min(place, len(voters)):], has); i >= 0 {
			l.prefer(r, place, i)
			has[i]++
		}
	}
	for l.spreadOnce(ranges, place, has) {
	}
}

// leastOf returns the active node with the smallest count, or -1.
func (l *layout) leastOf(nodes, has []int) int {
	best := -1
	for _, i := range nodes {
		if l.nodes[i].State == Active && (best < 0 || has[i] < has[best]) {
			best = i
		}
	}
	return best
}

// prefer moves a voter forward to a place and keeps the order of the others.
func (l *layout) prefer(r, place, i int) {
	at := slices.Index(l.voters[r], i)
	l.voters[r] = slices.Insert(slices.Delete(l.voters[r], at, at+1), place, i)
}

func (l *layout) spreadOnce(ranges []int, place int, has []int) bool {
	edges := l.noEdges()
	for _, r := range ranges {
		for _, to := range l.voters[r][min(place+1, len(l.voters[r])):] {
			edges[l.voters[r][place]][to] = true
		}
	}
	for _, from := range byCountDescending(l.active, has) {
		way := path(from, l.active, has, edges)
		if way == nil {
			continue
		}
		// Each step is in a range of its own: the nodes of the way differ.
		steps := make([]int, len(way)-1)
		for i := range steps {
			steps[i] = l.canPrefer(ranges, place, way[i], way[i+1])
		}
		for i, r := range steps {
			l.prefer(r, place, way[i+1])
		}
		has[from]--
		has[way[len(way)-1]]++
		return true
	}
	return false
}

// canPrefer returns the range, among those with from at place and to behind it, whose other voters
// follow from most and to least.
func (l *layout) canPrefer(ranges []int, place, from, to int) int {
	less, more := l.followersAt(ranges, place, from), l.followersAt(ranges, place, to)
	best, bestRank := -1, 0
	for _, r := range ranges {
		voters := l.voters[r]
		if len(voters) <= place || voters[place] != from || !slices.Contains(voters[place+1:], to) {
			continue
		}
		rank := 0
		for _, v := range voters[place+1:] {
			if v != to {
				rank += less[v] - more[v]
			}
		}
		if best < 0 || rank > bestRank {
			best, bestRank = r, rank
		}
	}
	return best
}

// followersAt counts how often each node follows node i at a place.
func (l *layout) followersAt(ranges []int, place, i int) []int {
	n := make([]int, len(l.nodes))
	for _, r := range ranges {
		if voters := l.voters[r]; len(voters) > place && voters[place] == i {
			for _, v := range voters[place+1:] {
				n[v]++
			}
		}
	}
	return n
}
