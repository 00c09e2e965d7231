package leader

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

func (b *bucket) standing() quota.Units {
	sum := b.outstandingTokens()
	for i := range b.allocations {
		sum = sum.Plus(b.allocations[i].standing())
	}
	return sum
}

// returns is the most that may come back to the pool from members.
func (b *bucket) returns() quota.Units {
	sum := b.outstandingTokens()
	for i := range b.allocations {
		sum = sum.Plus(max(0, min(b.allocations[i].out, b.allocations[i].ret)))
	}
	return sum
}

// perSecond is what the level gains now.
func (b *bucket) perSecond() quota.Units {
	if b.tier.Kind == quota.TokenBucket {
		return b.gains
	}
	return b.pool.Slope(&b.tier)
}

// whole is the meter of everything that is not used, wherever it stands.
func (b *bucket) whole() limiter.Meter {
	m := b.pool
	m.Add(b.standing())
	return m
}

// level is what the whole cluster could still spend; below 0 is debt.
func (b *bucket) level() quota.Units { return b.levelWith(b.standing()) }

// levelWith is the level if that much stands with members.
func (b *bucket) levelWith(stands quota.Units) quota.Units {
	return min(b.pool.Level().Plus(stands), b.limit.BurstUnits())
}

// resetAfter is when the key is full again if nobody uses it.
func (b *bucket) resetAfter(now quota.Time) time.Duration {
	m := b.whole()
	return m.ResetAfter(now, &b.tier)
}

// levelFor is the level, as it is, as told to h: what callers at other members are waiting
// for is as good as spent, and so is what they hold and will use, for a member that
// has had more than its part: one that floods would find it first.
func (b *bucket) levelFor(al *allocation, level quota.Units) quota.Units {
	spent := b.overdrew(al)
	for i := range b.allocations {
		o := &b.allocations[i]
		if o == al || o.spoken == 0 && !spent {
			continue
		}
		theirs := min(o.spoken, o.standing())
		if spent {
			theirs = max(theirs, b.soon(o))
		}
		level = level.Plus(-theirs)
	}
	return level
}

// aside is what is in no level because a node may have used it, or may hold it, that has not told
// this leader: what an earlier leader's log promised it, or what it was granted before it became
// suspect. While nothing may be granted at all it is a unit at least. Hard only.
func (l *Ledger) aside(now quota.Time, b *bucket) quota.Units {
	if b.limit.Ceiling != quota.Hard {
		return 0
	}
	sum := b.outstandingTokens().Plus(b.own.earlier)
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

// suspected reports whether the member's process has probably ended, and may yet speak.
func (l *Ledger) suspected(id quota.NodeID) bool {
	m := l.members[id]
	return m != nil && m.suspect != 0
}

// window adds to a grant where the level is going.
func (b *bucket) window(g *quota.GrantEntry) {
	g.Slope, g.Burst = b.perSecond(), b.limit.BurstUnits()
	g.WindowStart, g.WindowEnd = b.pool.Bounds()
}

// others is the demand of everybody but h, Units per second, less one standard
// deviation of a count in a second: few requests say little, and a
// member that believes too much of them refuses what the cluster could serve.
func (b *bucket) others(al *allocation) quota.Units {
	if b.tier.Kind == quota.Concurrency {
		return 0 // what they acquire they release
	}
	var sum float64
	for i := range b.allocations {
		if o := &b.allocations[i]; o != al {
			sum += o.live
		}
	}
	return quota.RoundUnits(max(0, sum-math.Sqrt(sum*b.batchSize())))
}

// unseen is what everybody but h has probably used since its last report, as far
// as there is something to use: of this level.
func (b *bucket) unseen(now quota.Time, al *allocation, level quota.Units) quota.Units {
	if b.tier.Kind == quota.Concurrency || b.limit.Ceiling == quota.Hard { // under hard they ask
		return 0
	}
	var sum, parts float64
	for i := range b.allocations {
		o := &b.allocations[i]
		if al != nil && o.rate > 0 { // about half a token lies there that nobody can use
			parts += float64(quota.Token) / 2
		}
		if age := now.Sub(o.reported); o != al && age < 2*o.again { // later it would have said so
			sum += o.using * age.Seconds()
		}
	}
	return quota.RoundUnits(min(sum, max(0, float64(level)-parts)))
}
