package history

import (
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// Point holds what happened under a limit in some seconds, such as a minute or an hour. Demand is what was
// requested in one second. Amounts are in millionths of a token.
type Point struct {
	Start   Second
	Seconds int
	Counts              // sums over all seconds
	Peak    quota.Units // highest demand of any second
	Mean    quota.Units // mean demand, rounded down
	P50     quota.Units // percentiles of demand: the least amount that that share of seconds did not exceed
	P95     quota.Units
	P99     quota.Units
	// Missing holds the processes that lived in these seconds and have not uploaded all of them,
	// ordered; at most MaxMissing. If it is empty and every slot was written, the point is Complete,
	// that is, exact.
	Missing  []Process
	Complete bool
}

// MaxMissing bounds Point.Missing.
const MaxMissing = 16

// Point returns the point of a limit for the slots from from until before end.
func (k *Recent) Point(limit quota.LimitName, from, end Slot) Point {
	p := Point{Start: from.First(), Seconds: int(end-from) * SlotSeconds, Complete: end > from}
	demand := make([]quota.Units, 0, p.Seconds)
	for b := from; b < end; b++ {
		s := k.slots[b]
		if s == nil {
			p.Complete = false
			demand = append(demand, make([]quota.Units, SlotSeconds)...)
			continue
		}
		v := s.vector(limit)
		for i := range v {
			p.Add(&v[i])
			demand = append(demand, v[i].Attempted)
		}
		p.addMissing(k.missing(b, s))
	}
	p.rank(demand)
	return p
}

// addMissing adds processes that have not uploaded a slot.
func (p *Point) addMissing(all []Process) {
	for _, m := range all {
		p.Complete = false
		i, there := slices.BinarySearchFunc(p.Missing, m, compareProcesses)
		if !there && len(p.Missing) < MaxMissing {
			p.Missing = slices.Insert(p.Missing, i, m)
		}
	}
}

// rank sets the percentiles, peak and mean from the demand of all seconds. It sorts demand.
func (p *Point) rank(demand []quota.Units) {
	n := len(demand)
	if n == 0 {
		return
	}
	slices.Sort(demand)
	at := func(percent int) quota.Units { return demand[(n*percent+99)/100-1] }
	p.P50, p.P95, p.P99, p.Peak = at(50), at(95), at(99), demand[n-1]
	p.Mean = p.Attempted / quota.Units(n)
}
