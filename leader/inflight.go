package leader

import (
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// recount books what is in flight: nothing flows back but by a release.
func (a *account) recount(now quota.Time) {
	free := a.limit.BurstUnits()
	for i := range a.holders {
		h := &a.holders[i]
		h.accrue(now) // ends leases
		free = free.Plus(-h.out).Plus(-h.inFlight)
	}
	a.outlived = slices.DeleteFunc(a.outlived, func(g outlived) bool { return now >= g.until })
	for _, g := range a.outlived {
		free = free.Plus(-g.places)
	}
	a.pool.Add(free.Plus(-a.pool.Level()))
}

// outlived is what a dead member had in flight, until its lease is over.
type outlived struct {
	until  quota.Time
	places quota.Units
}

// maxOutlived bounds those of one account: nodes do not die that often in a lease.
const maxOutlived = 64

// bury keeps what a dead member had in flight for as long as its callers may.
func (a *account) bury(now quota.Time, h *holder) {
	if h.inFlight > 0 && a.limit.Ceiling == quota.Hard && len(a.outlived) < maxOutlived {
		a.outlived = append(a.outlived, outlived{now.Add(a.limit.LeaseOrDefault()), h.inFlight})
	}
}
