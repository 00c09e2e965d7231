package plan

import (
	"iter"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// Order is the order of seconds of which only the distribution of sizes is known.
type Order uint8

// Orders of seconds.
const (
	Apart    Order = iota // the busiest seconds are far from each other: the least is refused
	Together              // the busiest seconds are next to each other: the most is refused
)

// Seconds returns demand by the second, made from points of a minute or an hour. Its seconds match the
// percentiles, the peak and the sum of each point. It is a model, not a record. The sequence makes one
// point at a time, because all seconds of two years are too many to keep.
func Seconds(points []history.Point, order Order) iter.Seq[Demand] {
	return func(yield func(Demand) bool) {
		for i := range points {
			p := &points[i]
			if p.Attempted <= 0 || p.Seconds <= 0 {
				continue
			}
			sizes, step := sizes(p), 1
			if order == Apart {
				step = stride(len(sizes))
			}
			for s := range sizes {
				if v := sizes[s*step%len(sizes)]; v > 0 && !yield(Demand{At: p.Start + history.Second(s), Attempted: v}) {
					return
				}
			}
		}
	}
}

// stride returns a step that has no common divisor with n, and puts neighbours far apart when walking
// through n places.
func stride(n int) int {
	for step := max(1, n*618/1000); ; step++ {
		if gcd(step, n) == 1 {
			return step
		}
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// sizes returns the demand of a point's seconds, busiest first.
func sizes(p *history.Point) []quota.Units {
	n := p.Seconds
	if n == 1 {
		return []quota.Units{p.Attempted}
	}
	out := make([]quota.Units, n)
	rank := func(percent int) int { return (n*percent+99)/100 - 1 }
	type knot struct {
		at int
		v  quota.Units
	}
	knots := []knot{{0, 0}, {rank(50), p.P50}, {rank(95), p.P95}, {rank(99), p.P99}, {n - 1, p.Peak}}
	for k := 1; k < len(knots); k++ {
		a, b := knots[k-1], knots[k]
		for i := a.at; i <= b.at; i++ {
			out[i] = b.v
			if b.at > a.at {
				out[i] = a.v + quota.Units(quota.MulDiv(int64(b.v-a.v), int64(i-a.at), int64(b.at-a.at)))
			}
		}
	}
	fit(out, p.Attempted)
	slices.Reverse(out)
	return out
}

// fit scales seconds that are ordered by size so that they add up to sum. It keeps the last one, the peak.
func fit(out []quota.Units, sum quota.Units) {
	left := sum - out[len(out)-1]
	have := quota.Units(0)
	low := out[:len(out)-1]
	for _, v := range low {
		have += v
	}
	if have <= 0 {
		have = quota.Units(len(low))
		for i := range low {
			low[i] = 1
		}
	}
	given := quota.Units(0)
	for i := range low {
		low[i] = quota.Units(float64(low[i]) * (float64(max(0, left)) / float64(have)))
		given += low[i]
	}
	low[len(low)-1] += max(0, left) - given // the rounding error
}

// ReplayPoints replays tiers on points of more than a second. For windows that begin and end with points
// the outcome is that of Replay. Otherwise it is an estimate, between the order of seconds in which least
// is refused and the order in which most is.
func ReplayPoints(tiers []quota.Tier, points []history.Point) Outcome {
	var whole []Demand
	var out Outcome
	for i := range tiers {
		t := &tiers[i]
		if fits(t, points) {
			if whole == nil {
				whole = Whole(points)
			}
			out.join(Replay(t, whole))
			continue
		}
		o, most := replay(t, Seconds(points, Apart)), replay(t, Seconds(points, Together))
		o.RefusedAtMost, o.Estimate, o.Seconds = max(o.RefusedAtMost, most.RefusedAtMost), true, max(o.Seconds, most.Seconds)
		out.join(o)
	}
	return out
}

// Whole returns the demand of each point as a single demand at its first second.
func Whole(points []history.Point) []Demand {
	var out []Demand
	for i := range points {
		if p := &points[i]; p.Attempted > 0 {
			out = append(out, Demand{At: p.Start, Attempted: p.Attempted})
		}
	}
	return out
}

// fits reports whether a tier's windows begin and end with points. If so, the moment of demand within a
// point does not matter.
func fits(t *quota.Tier, points []history.Point) bool {
	n := int64(1)
	for i := range points {
		n = max(n, int64(points[i].Seconds))
	}
	switch t.Kind {
	case quota.FixedWindow:
		return t.Rate.Per%(time.Duration(n)*time.Second) == 0
	case quota.CalendarWindow:
		return n <= 60 || n <= 3600 && t.Calendar.Unit >= quota.Hour && t.Calendar.Zone == nil
	}
	return false
}

// Fullest returns the highest demand in one window of a tier. known is false if the points do not tell
// windows apart.
func Fullest(t *quota.Tier, points []history.Point) (most quota.Units, known bool) {
	if !fits(t, points) {
		return 0, false
	}
	sum, window := quota.Units(0), quota.Time(0)
	for i := range points {
		if start, _ := limiter.Window(t, at(points[i].Start)); start != window {
			sum, window = 0, start
		}
		sum = sum.Plus(points[i].Attempted)
		most = max(most, sum)
	}
	return most, true
}
