package plan

import (
	"iter"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// Order is how seconds are put that are only known by how many there were of each size.
type Order uint8

// The orders.
const (
	Apart    Order = iota // the busiest ones far from each other: the least is refused
	Together              // the busiest ones next to each other: the most is refused
)

// Seconds makes demand by the second out of points of a minute or an hour: as many seconds
// of each size as their percentiles and their peak say, with the points' sums. It is a
// likeness, not a record. One point after the other is made: all seconds of two years are too many to keep.
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

// stride walks through n places so that neighbours end up far apart, and has no
// divisor in common with n.
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

// sizes are the seconds of a point, the busiest first.
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

// fit makes seconds, ordered by size, add up to sum, and leaves the last one, the peak, alone.
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
	low[len(low)-1] += max(0, left) - given // what rounding has left
}

// ReplayPoints replays tiers on points of more than a second. Of windows that begin and
// end with points it is what Replay says; of all else an estimate, between the
// likeness in which least is refused and that in which most is.
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

// Whole is the demand of points, of each together at its first second.
func Whole(points []history.Point) []Demand {
	var out []Demand
	for i := range points {
		if p := &points[i]; p.Attempted > 0 {
			out = append(out, Demand{At: p.Start, Attempted: p.Attempted})
		}
	}
	return out
}

// fits reports whether a tier's windows begin and end with points: then it does not matter
// when within a point demand came.
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

// Fullest is the most that was asked for in one window of a tier; known is false where points do not tell windows apart.
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
