package console

import (
	"math"
	"sync"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// Bounds of a flow.
const (
	flowPoints = 600                    // remembered points
	flowApart  = 900 * time.Millisecond // shortest time between two points
	flowGap    = 15 * time.Second       // longest time over which a rate is computed
)

// flow remembers the totals that pages have read, so that a newly opened page has a past to show.
// Only readers with the permission to read rates fill it, and only they see it. The zero value is
// ready to use.
type flow struct {
	mu     sync.Mutex
	points []flowPoint
}

type flowPoint struct {
	at                          time.Time
	attempted, admitted         int64
	attemptedRate, admittedRate float64 // since the previous point; NaN if unknown
}

// add adds an answer unless it is too close to the previous one. Incomplete answers are ignored,
// because they would give wrong rates.
func (f *flow) add(res *quoratev1.TopRatesResponse) {
	if res.GetAsOf() == nil || res.GetRangesCovered() < res.GetRangesTotal() {
		return
	}
	p := flowPoint{at: res.AsOf.AsTime(), attemptedRate: math.NaN(), admittedRate: math.NaN()}
	for _, l := range res.Limits {
		p.attempted += l.Attempted
		p.admitted += l.Admitted
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.points); n > 0 {
		last := &f.points[n-1]
		apart := p.at.Sub(last.at)
		if apart < flowApart {
			return
		}
		if apart <= flowGap && p.attempted >= last.attempted && p.admitted >= last.admitted {
			p.attemptedRate = float64(p.attempted-last.attempted) / apart.Seconds()
			p.admittedRate = float64(p.admitted-last.admitted) / apart.Seconds()
		}
		if n >= flowPoints {
			f.points = append(f.points[:0], f.points[1:]...)
		}
	}
	f.points = append(f.points, p)
}

// recent returns a copy of the points.
func (f *flow) recent() []flowPoint {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]flowPoint(nil), f.points...)
}

// maxFlows bounds the limits with a flow: flowPoints for each, about 3 MiB in total.
const maxFlows = 100

// flows remembers the flows of limits that somebody views. It drops the oldest first. The zero
// value is ready to use.
type flows struct {
	mu    sync.Mutex
	of    map[string]*flow
	order []string
}

// get returns the flow of a limit.
func (f *flows) get(namespace, limit string) *flow {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := namespace + "/" + limit
	if one := f.of[name]; one != nil {
		return one
	}
	if f.of == nil {
		f.of = map[string]*flow{}
	}
	if len(f.order) >= maxFlows {
		delete(f.of, f.order[0])
		f.order = f.order[1:]
	}
	one := &flow{}
	f.of[name] = one
	f.order = append(f.order, name)
	return one
}

// setNewest replaces the newest rates if they are known more precisely than by the growth of the totals.
func (f *flow) setNewest(attempted, admitted float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.points); n > 0 {
		f.points[n-1].attemptedRate, f.points[n-1].admittedRate = attempted, admitted
	}
}
