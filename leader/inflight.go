package leader

import (
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// recount books what is in flight: nothing flows back but by a release.
func (b *bucket) recount(now quota.Time) {
	free := b.limit.BurstUnits()
	for i := range b.allocations {
		al := &b.allocations[i]
		al.accrue(now) // ends leases
		free = free.Plus(-al.out).Plus(-al.inFlight)
	}
	b.outlived = slices.DeleteFunc(b.outlived, func(g outlived) bool { return now >= g.until })
	for _, g := range b.outlived {
		free = free.Plus(-g.places)
	}
	b.pool.Add(free.Plus(-b.pool.Level()))
}

// outlived is what a dead member had in flight, until its lease is over.
type outlived struct {
	until  quota.Time
	places quota.Units
}

// maxOutlived bounds those of one bucket: nodes do not die that often in a lease.
const maxOutlived = 64

// keepInFlight keeps what a dead member had in flight for as long as its callers may.
func (b *bucket) keepInFlight(now quota.Time, al *allocation) {
	if al.inFlight > 0 && b.limit.Ceiling == quota.Hard && len(b.outlived) < maxOutlived {
		b.outlived = append(b.outlived, outlived{now.Add(b.limit.LeaseOrDefault()), al.inFlight})
	}
}
