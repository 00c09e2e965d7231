package console

import (
	"math"
	"sync"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// Bounds of the flow.
const (
	flowPoints = 600                    // remembered
	flowApart  = 900 * time.Millisecond // at least, between two
	flowGap    = 15 * time.Second       // after which a rate says nothing
)

// flow remembers what pages have seen of the cluster's totals, so that a page that is
// opened has a past to show. It is fed by those who may read rates, and shown to them
// alone. The zero value is ready.
type flow struct {
	mu     sync.Mutex
	points []flowPoint
}

type flowPoint struct {
	at                  time.Time
	attempted, admitted int64
	askedRate, gaveRate float64 // since the point before; NaN: unknown
}

// add takes an answer, if it is not too near to the last; incomplete answers would make
// rates that never were.
func (f *flow) add(res *quoratev1.TopRatesResponse) {
	if res.GetAsOf() == nil || res.GetRangesCovered() < res.GetRangesTotal() {
		return
	}
	p := flowPoint{at: res.AsOf.AsTime(), askedRate: math.NaN(), gaveRate: math.NaN()}
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
			p.askedRate = float64(p.attempted-last.attempted) / apart.Seconds()
			p.gaveRate = float64(p.admitted-last.admitted) / apart.Seconds()
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
