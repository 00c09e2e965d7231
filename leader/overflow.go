package leader

import (
	"github.com/quorate/quorate/internal/quota"
)

// slid ensures that what a dead process had out comes back once: when a sliding
// window continues, it flows back as if it had been used, whatever its journal
// reports later.
func (b *bucket) slid(was quota.Time) {
	if start, _ := b.pool.Bounds(); b.tier.Kind != quota.SlidingWindow || start == was {
		return
	}
	for i := range b.allocations {
		if al := &b.allocations[i]; al.dead {
			al.ret = 0
		}
	}
}

// overflow takes from what may come back what the full bucket cannot hold: what
// the rates yielded beyond the members' caps was used, or has overflowed there.
// Under soft it was used, unless the bucket is full now.
func (b *bucket) overflow(full quota.Units) {
	over := b.pool.Level().Plus(b.outstandingTokens()).Plus(-full)
	for i := range b.allocations {
		over = over.Plus(b.allocations[i].ret)
	}
	for i := range b.allocations {
		if over <= 0 {
			return
		}
		al := &b.allocations[i]
		cut := min(over, max(0, al.ret-al.standing()))
		al.ret, over = al.ret-cut, over-cut
	}
}

// noteOverflow sums up what overflowed of a soft bucket.
func (b *bucket) noteOverflow(now quota.Time, before quota.Units) {
	if b.tier.Kind == quota.TokenBucket && b.limit.Ceiling == quota.Soft && b.overflowAt > 0 && b.perSecond() < overflowBelow {
		b.overflowed = b.overflowed.Plus(max(0, before.Plus(refill(b.limit.Rate, now.Sub(b.overflowAt))).Plus(-b.pool.Level())))
	}
	b.overflowAt = now
}

// overflowBelow is where what overflows between two reports is less than a few
// tokens: there each of them counts, and elsewhere the estimate would be too coarse.
const overflowBelow = 20 * quota.Token

// takeBack takes back that something overflowed while h had used what it reports only now: a
// third of it, since nobody knows when that was.
func (b *bucket) takeBack(al *allocation, used quota.Units) {
	back := min(used, max(0, b.overflowed-al.overflowed)/3)
	if back > 0 {
		b.pool.Add(back)
		b.overflowed -= back
	}
	al.overflowed = b.overflowed
}

// amend is for what a member admitted of a soft bucket while it was cut off, or nobody led.
// back of it had overflowed in that time, because nobody knew of the use: it was not too much.
// The rest is debt, but a burst at most: to refuse everything until an hour of it is paid back
// would make an outage twice as long, and what has passed has passed.
func (b *bucket) amend(back quota.Units, d *delta) {
	if d.alone == 0 || b.tier.Kind != quota.TokenBucket || b.limit.Ceiling != quota.Soft {
		return
	}
	back = min(back, d.over)
	b.pool.Add(back)
	if debt := (-b.level()).Plus(-b.limit.BurstUnits()); debt > 0 {
		forgiven := min(debt, d.over-back)
		b.pool.Add(forgiven)
		b.env.Add(forgiven)
		b.forgiven = b.forgiven.Plus(forgiven)
	}
}
