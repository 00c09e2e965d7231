package leader

import (
	"github.com/quorate/quorate/internal/quota"
)

// slid ensures that what a dead process had out comes back once: when a sliding
// window continues, it flows back as if it had been used, whatever its journal
// reports later.
func (a *account) slid(was quota.Time) {
	if start, _ := a.pool.Bounds(); a.tier.Kind != quota.SlidingWindow || start == was {
		return
	}
	for i := range a.holders {
		if h := &a.holders[i]; h.dead {
			h.ret = 0
		}
	}
}

// overflow takes from what may come back what the full bucket cannot hold: what
// the rates yielded beyond the members' caps was used, or has overflowed there.
// Under soft it was used, unless the bucket is full now.
func (a *account) overflow(full quota.Units) {
	over := a.pool.Level().Plus(a.claimed()).Plus(-full)
	for i := range a.holders {
		over = over.Plus(a.holders[i].ret)
	}
	for i := range a.holders {
		if over <= 0 {
			return
		}
		h := &a.holders[i]
		cut := min(over, max(0, h.ret-h.standing()))
		h.ret, over = h.ret-cut, over-cut
	}
}

// noteOverflow sums up what overflowed of a soft bucket.
func (a *account) noteOverflow(now quota.Time, before quota.Units) {
	if a.tier.Kind == quota.TokenBucket && a.limit.Ceiling == quota.Soft && a.overflowAt > 0 && a.perSecond() < overflowBelow {
		a.overflowed = a.overflowed.Plus(max(0, before.Plus(refill(a.limit.Rate, now.Sub(a.overflowAt))).Plus(-a.pool.Level())))
	}
	a.overflowAt = now
}

// overflowBelow is where what overflows between two reports is less than a few
// tokens: there each of them counts, and elsewhere the estimate would be too coarse.
const overflowBelow = 20 * quota.Token

// takeBack takes back that something overflowed while h had used what it reports only now: a
// third of it, since nobody knows when that was.
func (a *account) takeBack(h *holder, used quota.Units) {
	back := min(used, max(0, a.overflowed-h.overflowed)/3)
	if back > 0 {
		a.pool.Add(back)
		a.overflowed -= back
	}
	h.overflowed = a.overflowed
}

// amend is for what a member admitted of a soft bucket while it was cut off, or nobody led.
// back of it had overflowed in that time, because nobody knew of the use: it was not too much.
// The rest is debt, but a burst at most: to refuse everything until an hour of it is paid back
// would make an outage twice as long, and what has passed has passed.
func (a *account) amend(back quota.Units, d *delta) {
	if d.alone == 0 || a.tier.Kind != quota.TokenBucket || a.limit.Ceiling != quota.Soft {
		return
	}
	back = min(back, d.over)
	a.pool.Add(back)
	if debt := (-a.level()).Plus(-a.limit.BurstUnits()); debt > 0 {
		forgiven := min(debt, d.over-back)
		a.pool.Add(forgiven)
		a.env.Add(forgiven)
		a.forgiven = a.forgiven.Plus(forgiven)
	}
}
