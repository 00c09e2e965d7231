package leader

import (
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// recount sets the pool to the burst less what is in flight: tokens return only when they are
// released.
func (b *bucket) recount(now quota.Time) {
	free := b.limit.BurstUnits()
	for i := range b.allocations {
		al := &b.allocations[i]
		al.accrue(now) // expires leases
		free = free.Plus(-al.out).Plus(-al.rarely().inFlight)
	}
	if s := b.unusual; s != nil {
		s.outlived = slices.DeleteFunc(s.outlived, func(g deadInFlight) bool { return now >= g.until })
		for _, g := range s.outlived {
			free = free.Plus(-g.places)
		}
	}
	b.pool.Add(free.Plus(-b.pool.Level()))
}

// deadInFlight is what a dead member had in flight, until the limit's lease is over.
type deadInFlight struct {
	until  quota.Time
	places quota.Units
}

// maxOutlived bounds the entries of one bucket: nodes do not die that often within a lease.
const maxOutlived = 64

// keepInFlight keeps the requests in flight of a dead member charged for as long as its callers may
// hold them. Under hard only.
func (b *bucket) keepInFlight(now quota.Time, al *allocation) {
	if places := al.rarely().inFlight; places > 0 && b.limit.Ceiling == quota.Hard && len(b.rarely().outlived) < maxOutlived {
		s := b.editUnusual()
		s.outlived = append(s.outlived, deadInFlight{now.Add(b.limit.LeaseOrDefault()), places})
	}
}
