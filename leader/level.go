package leader

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// standing is the sum of standing over all members, and of outstanding grants.
func (b *bucket) standing() quota.Units {
	sum := b.outstandingTokens()
	for i := range b.allocations {
		sum = sum.Plus(b.allocations[i].standing())
	}
	return sum
}

// returnableTokens is the most that may return to the pool from members.
func (b *bucket) returnableTokens() quota.Units {
	sum := b.outstandingTokens().Plus(b.usedOutstanding())
	for i := range b.allocations {
		sum = sum.Plus(max(0, min(b.allocations[i].out, b.allocations[i].returnable)))
	}
	return sum
}

// gainPerSecond is the present gain of the level per second.
func (b *bucket) gainPerSecond() quota.Units {
	if b.tier.Kind == quota.TokenBucket {
		return b.gains
	}
	return b.pool.Slope(&b.tier)
}

// unusedMeter is the meter of all unused tokens, in the pool and at members.
func (b *bucket) unusedMeter() limiter.Meter {
	m := b.pool
	m.Add(b.standing())
	return m
}

// level is what the whole cluster could still spend; below 0 is debt.
func (b *bucket) level() quota.Units { return b.levelWith(b.standing()) }

// levelWith is the level if standing tokens are outstanding at members.
func (b *bucket) levelWith(standing quota.Units) quota.Units {
	return min(b.pool.Level().Plus(standing), b.limit.BurstUnits())
}

// resetAfter is the time until the key is full if nobody uses it.
func (b *bucket) resetAfter(now quota.Time) time.Duration {
	m := b.unusedMeter()
	return m.ResetAfter(now, &b.tier)
}

// levelFor is the level that a grant states to al: without the tokens that callers at other members
// wait for, which count as spent. For a member that has used more than its share, it is also
// without the tokens that others hold and will use: a member that floods would overdraw them first.
func (b *bucket) levelFor(al *allocation, level quota.Units) quota.Units {
	spent := b.overdrew(al)
	for i := range b.allocations {
		o := &b.allocations[i]
		awaited := o.rarely().awaited
		if o == al || awaited == 0 && !spent {
			continue
		}
		theirs := min(awaited, o.standing())
		if spent {
			theirs = max(theirs, b.expectedUse(o))
		}
		level = level.Plus(-theirs)
	}
	return level
}

// aside is the amount that level excludes because a node that has not reported to this leader may
// have used it or may hold it: by a promise of an earlier leader, or granted before the node became
// suspect. It is at least one unit while nothing may be granted at all. Hard only.
func (l *Ledger) aside(now quota.Time, b *bucket) quota.Units {
	if b.limit.Ceiling != quota.Hard {
		return 0
	}
	sum := b.outstandingTokens().Plus(b.earlier())
	if !l.mayGrant(now, b) {
		sum = max(sum, 1)
	}
	for i := range b.allocations {
		if al := &b.allocations[i]; !al.dead && al.out > 0 && (al.restored || l.suspects && l.suspected(al.node)) {
			sum = sum.Plus(al.out)
		}
	}
	return min(sum, quota.Most)
}

// suspected reports whether the member's process has probably ended, but may still report.
func (l *Ledger) suspected(id quota.NodeID) bool {
	m := l.members[id]
	return m != nil && m.suspect != 0
}

// addWindow adds the slope, the burst and the window of the level to a grant.
func (b *bucket) addWindow(g *quota.GrantEntry) {
	g.Slope, g.Burst = b.gainPerSecond(), b.limit.BurstUnits()
	g.WindowStart, g.WindowEnd = b.pool.Bounds()
}

// othersDemand is the demand of all members but al, Units per second, less one standard deviation of a
// count in a second. A small count says little, and a member that overestimates the others refuses
// what the cluster could serve.
func (b *bucket) othersDemand(al *allocation) quota.Units {
	if b.tier.Kind == quota.Concurrency {
		return 0 // what others acquire they release
	}
	var sum float64
	for i := range b.allocations {
		if o := &b.allocations[i]; o != al {
			sum += float64(o.live)
		}
	}
	return quota.RoundUnits(max(0, sum-math.Sqrt(sum*b.batchSize())))
}

// unseen is the probable use by all members but al since their last reports, at most level. al may
// be nil.
func (b *bucket) unseen(now quota.Time, al *allocation, level quota.Units) quota.Units {
	if b.tier.Kind == quota.Concurrency || b.limit.Ceiling == quota.Hard { // under hard members do not estimate
		return 0
	}
	var sum, parts float64
	for i := range b.allocations {
		o := &b.allocations[i]
		if al != nil && o.rate > 0 { // about half a token is held there that cannot be used
			parts += float64(quota.Token) / 2
		}
		if age := now.Sub(o.reported); o != al && age < 2*o.reportWithin(b.sync) { // after that it would have reported
			sum += float64(o.using) * age.Seconds()
		}
	}
	return quota.RoundUnits(min(sum, max(0, float64(level)-parts)))
}
