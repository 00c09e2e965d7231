package account

import (
	"math"

	"github.com/quorate/quorate/internal/quota"
)

const second = 1_000_000_000

// always reports whether accounts are kept full.
func (r Refill) always() bool { return r.Interval == 0 && r.Units > 0 }

// refill returns the balance at to of an account that had balance at from, if this policy applied
// in between. A refill never moves a balance out of 0 to limit, nor a balance outside it any
// further out. It takes constant time, however long the span.
func (p *Policy) refill(balance int64, from, to quota.Time) int64 {
	r := p.Refill
	if r.always() {
		return max(balance, p.Limit)
	}
	n := r.moments(from, to)
	switch {
	case n <= 0 || r.Units == 0:
		return balance
	case r.Units > 0:
		return balance + steps(n, r.Units, p.Limit-balance)
	default:
		return balance - steps(n, -r.Units, balance)
	}
}

// steps returns n*units, but at most gap and at least 0.
func steps(n, units, gap int64) int64 {
	if gap <= 0 {
		return 0
	}
	if n > gap/units { // n*units is at least gap, or would overflow
		return gap
	}
	return n * units
}

// moments counts the refills after from, up to and including to.
func (r Refill) moments(from, to quota.Time) int64 {
	if r.Interval == 0 || to <= from {
		return 0
	}
	return r.number(to) - r.number(from)
}

// number returns the sequence number of the newest refill at or before t. Intervals divide the day,
// so counting from the epoch is the same as counting from every midnight.
func (r Refill) number(t quota.Time) int64 {
	return floorDiv(floorDiv(int64(t), second)-int64(r.Offset), int64(r.Interval))
}

// next returns the time of the first refill after t that changes the given balance, or 0.
func (p *Policy) next(balance int64, t quota.Time) quota.Time {
	r := p.Refill
	fills := r.Units > 0 && balance < p.Limit
	drains := r.Units < 0 && balance > 0
	if r.Interval == 0 || !fills && !drains {
		return 0
	}
	s := int64(r.Offset) + (r.number(t)+1)*int64(r.Interval)
	if s > math.MaxInt64/second {
		return 0
	}
	return quota.Time(s * second)
}

// floorDiv returns a/b rounded down, for b above 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
