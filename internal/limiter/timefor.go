package limiter

import (
	"math"
	"math/bits"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// never is the time until something that does not happen.
const never time.Duration = math.MaxInt64

// ResetAfter returns the time until the meter is full without requests: 0 if it is full, math.MaxInt64 if it does not
// fill by itself (a rate of 0, Concurrency).
func (m *Meter) ResetAfter(now quota.Time, t *quota.Tier) time.Duration {
	at := m.advanced(now, t)
	return at.timeFor(now, t, at.bucket.level, at.remainder(t), t.BurstUnits())
}

// TimeFor returns how long the present level takes to reach cost without requests: 0 if it has, math.MaxInt64
// if it never does (cost is above the burst, the rate is 0, or the kind is Concurrency, whose releases cannot be
// predicted). The result is exact, rounded up to a nanosecond. Window and slope are the meter's, which is not
// changed.
func (m *Meter) TimeFor(now quota.Time, t *quota.Tier, level, cost quota.Units) time.Duration {
	at := m.advanced(now, t)
	return at.timeFor(now, t, clamp(level), 0, cost)
}

func (m *Meter) advanced(now quota.Time, t *quota.Tier) Meter {
	at := *m
	at.Advance(now, t)
	return at
}

// remainder returns the fraction of a unit that is earned beyond the level, as a numerator over the
// period in which it is earned.
func (m *Meter) remainder(t *quota.Tier) uint64 {
	if t.Kind == quota.TokenBucket {
		return min(m.bucket.rem, uint64(max(t.Rate.Per, 1))-1)
	}
	return m.bucket.rem
}

// timeFor is TimeFor for a meter that has been advanced to now. If the clock has jumped back, it
// adds the time until the clock reaches the meter's time again.
func (m *Meter) timeFor(now quota.Time, t *quota.Tier, level quota.Units, rem uint64, cost quota.Units) time.Duration {
	if level >= cost {
		return 0
	}
	if cost > t.BurstUnits() {
		return never
	}
	late := m.bucket.at.Sub(now)
	switch t.Kind {
	case quota.TokenBucket:
		return plus(late, gainTime(level, cost, rem, quota.FromTokens(t.Rate.Tokens), t.Rate.Per))
	case quota.SlidingWindow:
		return plus(late, m.slideTime(t, level, rem, cost))
	case quota.Concurrency:
		return never
	}
	return m.end.Sub(now)
}

// slideTime is timeFor of a sliding window, from the meter's own time.
func (m *Meter) slideTime(t *quota.Tier, level quota.Units, rem uint64, cost quota.Units) time.Duration {
	left, per := m.end.Sub(m.bucket.at), m.end.Sub(m.start)
	if d := gainTime(level, cost, rem, m.returns, per); d <= left {
		return d
	}
	next := Bucket{level: level, rem: rem}
	next.gain(left, m.returns, per)
	start, end := Window(t, m.end)
	return plus(left, gainTime(next.level, cost, 0, t.BurstUnits()-next.level, end.Sub(start)))
}

// gainTime returns how long a gain of u per period needs to raise level and rem/per units to cost,
// rounded up. Requires level < cost.
func gainTime(level, cost quota.Units, rem uint64, u quota.Units, per time.Duration) time.Duration {
	if u <= 0 || per <= 0 {
		return never
	}
	hi, lo := bits.Mul64(uint64(cost)-uint64(level), uint64(per))
	lo, borrow := bits.Sub64(lo, rem, 0)
	hi -= borrow
	lo, carry := bits.Add64(lo, uint64(u)-1, 0) // up
	hi += carry
	if hi >= uint64(u) {
		return never
	}
	q, _ := bits.Div64(hi, lo, uint64(u))
	return time.Duration(min(q, math.MaxInt64))
}

// plus adds non-negative durations, saturating.
func plus(a, b time.Duration) time.Duration {
	if a > never-b {
		return never
	}
	return a + b
}
