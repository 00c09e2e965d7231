package leader

import (
	"github.com/quorate/quorate/internal/quota"
)

// dropReturns ensures that tokens return once: when a sliding window advances, those that no member holds, as of dead
// processes, count as used and return to the level with time, whatever a report or a journal states later.
func (b *bucket) dropReturns(was quota.Time) {
	if start, _ := b.pool.Bounds(); b.tier.Kind != quota.SlidingWindow || start == was {
		return
	}
	for i := range b.allocations {
		al := &b.allocations[i]
		al.returnable = min(al.returnable, al.standing().Plus(al.answered()))
	}
	for i := range b.rarely().outstanding {
		if c := &b.unusual.outstanding[i]; c.heard {
			c.tokens = 0
		}
	}
}

// overflow reduces the tokens that may return (returnable) to what the bucket has room for: the yield of
// rates beyond the members' caps was used or has overflowed there. Under soft it was used, unless
// the bucket is full now.
func (b *bucket) overflow(full quota.Units) {
	over := b.pool.Level().Plus(b.outstandingTokens()).Plus(b.usedOutstanding()).Plus(-full)
	for i := range b.allocations {
		over = over.Plus(b.allocations[i].returnable)
	}
	for i := range b.rarely().outstanding {
		if c := &b.unusual.outstanding[i]; c.heard {
			cut := min(max(0, over), c.tokens)
			c.tokens, over = c.tokens-cut, over-cut
		}
	}
	for i := range b.allocations {
		if over <= 0 {
			return
		}
		al := &b.allocations[i]
		cut := min(over, max(0, al.returnable-al.standing()))
		al.returnable, over = al.returnable-cut, over-cut
	}
}

// noteOverflow adds up the overflow of a soft bucket.
func (b *bucket) noteOverflow(now quota.Time, before quota.Units) {
	if b.tier.Kind == quota.TokenBucket && b.limit.Ceiling == quota.Soft && b.overflowAt > 0 && b.gainPerSecond() < overflowBelow {
		b.overflowed = b.overflowed.Plus(max(0, before.Plus(refill(b.limit.Rate, now.Sub(b.overflowAt))).Plus(-b.pool.Level())))
	}
	b.overflowAt = now
}

// overflowBelow bounds the rates for which overflow is recorded. Below it, the overflow between two
// reports is less than a few tokens, each of which counts; above it, the estimate would be too
// coarse.
const overflowBelow = 20 * quota.Token

// takeBack returns to the pool tokens that overflowed while al had used what it reports only now: a
// third of the overflow, since the time of the use is unknown.
func (b *bucket) takeBack(al *allocation, used quota.Units) {
	back := min(used, max(0, b.overflowed-al.rarely().overflowed)/3)
	if back > 0 {
		b.pool.Add(back)
		b.overflowed -= back
	}
	al.noteOverflowed(b.overflowed)
}

// amend corrects the debt of a soft bucket for what a member admitted while it was cut off, or
// while the range had no leader. back is the part that had overflowed in that time because the use
// was unknown: it was not too much. The rest is debt, but at most a burst: to refuse everything
// until an hour of it is paid back would double the outage.
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
		s := b.editUnusual()
		s.forgiven = s.forgiven.Plus(forgiven)
	}
}
