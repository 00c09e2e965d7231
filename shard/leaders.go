package shard

import "slices"

// spreadLeaders orders the voters so that every active node is the preferred
// leader of about as many ranges: as evenly as the voters allow.
func (l *layout) spreadLeaders() {
	leads := make([]int, len(l.nodes))
	for r, voters := range l.voters {
		if len(voters) > 0 && l.nodes[voters[0]].State == Active {
			leads[voters[0]]++
		} else if i := l.leastOf(voters, leads); i >= 0 {
			l.prefer(r, i)
			leads[i]++
		}
	}
	for l.spreadLeader(leads) {
	}
}

// leastOf returns the active voter that leads least, or -1.
func (l *layout) leastOf(voters, leads []int) int {
	best := -1
	for _, i := range voters {
		if l.nodes[i].State == Active && (best < 0 || leads[i] < leads[best]) {
			best = i
		}
	}
	return best
}

// prefer puts a voter first and leaves the others in their order.
func (l *layout) prefer(r, i int) {
	at := slices.Index(l.voters[r], i)
	l.voters[r] = slices.Insert(slices.Delete(l.voters[r], at, at+1), 0, i)
}

func (l *layout) spreadLeader(leads []int) bool {
	edges := l.noEdges()
	for _, voters := range l.voters {
		for _, to := range voters {
			edges[voters[0]][to] = edges[voters[0]][to] || to != voters[0]
		}
	}
	for _, from := range mostFirst(l.active, leads) {
		way := path(from, l.active, leads, edges)
		if way == nil {
			continue
		}
		// Each step is in a range of its own: every node of the way leads its own.
		steps := make([]int, len(way)-1)
		for i := range steps {
			steps[i] = l.canLead(way[i], way[i+1])
		}
		for i, r := range steps {
			l.prefer(r, way[i+1])
		}
		leads[from]--
		leads[way[len(way)-1]]++
		return true
	}
	return false
}

// canLead returns a range that one node leads and the other could.
func (l *layout) canLead(from, to int) int {
	return slices.IndexFunc(l.voters, func(voters []int) bool {
		return len(voters) > 0 && voters[0] == from && slices.Contains(voters, to)
	})
}

// spreadHeirs orders the voters after the first so that the ranges which one
// node leads have different seconds: when it dies its work falls on many. Each
// change makes the sum of the squares of heirs smaller, so it ends.
func (l *layout) spreadHeirs() {
	heirs := make([][]int, len(l.nodes)) // by leader and second
	for i := range heirs {
		heirs[i] = make([]int, len(l.nodes))
	}
	for _, voters := range l.voters {
		if len(voters) > 1 {
			heirs[voters[0]][voters[1]]++
		}
	}
	for again := true; again; {
		again = false
		for _, voters := range l.voters {
			for j := 2; j < len(voters); j++ {
				of := heirs[voters[0]]
				if l.nodes[voters[j]].State == Active && (l.nodes[voters[1]].State != Active || of[voters[j]]+1 < of[voters[1]]) {
					of[voters[1]]--
					of[voters[j]]++
					voters[1], voters[j] = voters[j], voters[1]
					again = true
				}
			}
		}
	}
}
