package history

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// Merge merges consecutive points into one, such as minutes into an hour. Sums, the peak and the mean are
// exact. Percentiles may be too high, never too low, because a part's percentiles only bound the demand
// of its seconds from above. The point is complete if complete parts cover all of its seconds.
func Merge(start Second, seconds int, parts []Point) Point {
	p := Point{Start: start, Seconds: seconds, Complete: true}
	known := 0
	demand := make([]weighted, 0, 4*len(parts)+1)
	for i := range parts {
		q := &parts[i]
		p.Add(&q.Counts)
		p.Peak = max(p.Peak, q.Peak)
		p.addMissing(q.Missing)
		p.Complete = p.Complete && q.Complete
		known += q.Seconds
		demand = append(demand, weighted{q.P50, 50 * q.Seconds}, weighted{q.P95, 45 * q.Seconds}, weighted{q.P99, 4 * q.Seconds}, weighted{q.Peak, q.Seconds})
	}
	if known < seconds {
		p.Complete = false
		demand = append(demand, weighted{0, 100 * (seconds - known)})
	}
	if seconds > 0 {
		p.Mean = p.Attempted / quota.Units(seconds)
	}
	p.P50, p.P95, p.P99 = percentiles(demand)
	return p
}

// weighted is an upper bound on demand, with the number of hundredths of a second that it holds for.
type weighted struct {
	demand quota.Units
	weight int
}

func percentiles(all []weighted) (p50, p95, p99 quota.Units) {
	slices.SortFunc(all, func(a, b weighted) int { return cmp.Compare(a.demand, b.demand) })
	total := 0
	for _, w := range all {
		total += w.weight
	}
	at := func(percent int) quota.Units {
		sum := 0
		for _, w := range all {
			if sum += w.weight; sum*100 >= total*percent {
				return w.demand
			}
		}
		return 0
	}
	return at(50), at(95), at(99)
}

// Exactly returns one point for a time range, computed from the points of its seconds.
func Exactly(from, end Second, all []Point) Point {
	p := Point{Start: from, Seconds: int(end - from), Complete: Second(len(all)) == end-from}
	demand := make([]quota.Units, 0, p.Seconds)
	for i := range all {
		p.Add(&all[i].Counts)
		p.addMissing(all[i].Missing)
		p.Complete = p.Complete && all[i].Complete
		demand = append(demand, all[i].Attempted)
	}
	if short := p.Seconds - len(demand); short > 0 {
		demand = append(demand, make([]quota.Units, short)...)
	}
	p.rank(demand)
	return p
}
