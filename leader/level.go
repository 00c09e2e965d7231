package leader

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

func (a *account) standing() quota.Units {
	sum := a.claimed()
	for i := range a.holders {
		sum = sum.Plus(a.holders[i].standing())
	}
	return sum
}

// returns is the most that may come back to the pool from members.
func (a *account) returns() quota.Units {
	sum := a.claimed()
	for i := range a.holders {
		sum = sum.Plus(max(0, min(a.holders[i].out, a.holders[i].ret)))
	}
	return sum
}

// perSecond is what the level gains now.
func (a *account) perSecond() quota.Units {
	if a.tier.Kind == quota.TokenBucket {
		return a.gains
	}
	return a.pool.Slope(&a.tier)
}

// whole is the meter of everything that is not used, wherever it stands.
func (a *account) whole() limiter.Meter {
	m := a.pool
	m.Add(a.standing())
	return m
}

// level is what the whole cluster could still spend; below 0 is debt.
func (a *account) level() quota.Units { return a.levelWith(a.standing()) }

// levelWith is the level if that much stands with members.
func (a *account) levelWith(stands quota.Units) quota.Units {
	return min(a.pool.Level().Plus(stands), a.limit.BurstUnits())
}

// resetAfter is when the key is full again if nobody uses it.
func (a *account) resetAfter(now quota.Time) time.Duration {
	m := a.whole()
	return m.ResetAfter(now, &a.tier)
}

// levelFor is the level, as it is, as told to h: what callers at other members are waiting
// for is as good as spent, and so is what they hold and will use, for a member that
// has had more than its part: one that floods would find it first.
func (a *account) levelFor(h *holder, level quota.Units) quota.Units {
	spent := a.overdrew(h)
	for i := range a.holders {
		o := &a.holders[i]
		if o == h || o.spoken == 0 && !spent {
			continue
		}
		theirs := min(o.spoken, o.standing())
		if spent {
			theirs = max(theirs, a.soon(o))
		}
		level = level.Plus(-theirs)
	}
	return level
}

// aside is what is in no level because a node may have used it, or may hold it, that has not told
// this leader: what an earlier leader's log promised it, or what it was granted before it became
// suspect. While nothing may be granted at all it is a unit at least. Hard only.
func (l *Ledger) aside(now quota.Time, a *account) quota.Units {
	if a.limit.Ceiling != quota.Hard {
		return 0
	}
	sum := a.claimed().Plus(a.own.earlier)
	if !l.mayGrant(now, a) {
		sum = max(sum, 1)
	}
	for i := range a.holders {
		if h := &a.holders[i]; !h.dead && h.out > 0 && (h.restored || l.suspects && l.suspected(h.node)) {
			sum = sum.Plus(h.out)
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
func (a *account) window(g *quota.GrantEntry) {
	g.Slope, g.Burst = a.perSecond(), a.limit.BurstUnits()
	g.WindowStart, g.WindowEnd = a.pool.Bounds()
}

// others is the demand of everybody but h, Units per second, less one standard
// deviation of a count in a second: few requests say little, and a
// member that believes too much of them refuses what the cluster could serve.
func (a *account) others(h *holder) quota.Units {
	if a.tier.Kind == quota.Concurrency {
		return 0 // what they acquire they release
	}
	var sum float64
	for i := range a.holders {
		if o := &a.holders[i]; o != h {
			sum += o.live
		}
	}
	return quota.RoundUnits(max(0, sum-math.Sqrt(sum*a.clump())))
}

// unseen is what everybody but h has probably used since its last report, as far
// as there is something to use: of this level.
func (a *account) unseen(now quota.Time, h *holder, level quota.Units) quota.Units {
	if a.tier.Kind == quota.Concurrency || a.limit.Ceiling == quota.Hard { // under hard they ask
		return 0
	}
	var sum, parts float64
	for i := range a.holders {
		o := &a.holders[i]
		if h != nil && o.rate > 0 { // about half a token lies there that nobody can use
			parts += float64(quota.Token) / 2
		}
		if age := now.Sub(o.reported); o != h && age < 2*o.again { // later it would have said so
			sum += o.using * age.Seconds()
		}
	}
	return quota.RoundUnits(min(sum, max(0, float64(level)-parts)))
}
