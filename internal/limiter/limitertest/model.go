package limitertest

import (
	"math"
	"math/big"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// counter is the part of the reference that differs between kinds. Times passed to it never go
// back.
type counter interface {
	advance(now quota.Time)
	level() *big.Rat
	add(u *big.Rat) // charges if negative, refunds if positive; never above the burst
	retier(t quota.Tier)
	clone() counter
}

// Reference is the exact model of one limit with one tier, for one key.
type Reference struct {
	counter counter
	limit   quota.Limit
	seen    quota.Time // latest time; a clock that jumps back changes nothing
}

// NewReference returns a full model.
func NewReference(l quota.Limit, now quota.Time) *Reference {
	return &Reference{counter: newCounter(l.First(), now), limit: l, seen: now}
}

func newCounter(t quota.Tier, now quota.Time) counter {
	switch t.Kind {
	case quota.TokenBucket:
		return &bucket{tier: t, now: now, accumulated: units(t), tokensNextAvailable: whole(int64(now)), lost: new(big.Rat)}
	case quota.SlidingWindow:
		return &sliding{tier: t, now: now}
	case quota.PeriodicRefill:
		return &periodic{tier: t, now: now}
	case quota.Concurrency:
		return &inFlight{tier: t, used: new(big.Rat)}
	}
	return &windows{tier: t, now: now, window: windowOf(t, now)}
}

func (r *Reference) clone() *Reference {
	c := *r
	c.counter = r.counter.clone()
	return &c
}

func (r *Reference) advance(now quota.Time) {
	r.seen = max(r.seen, now)
	r.counter.advance(r.seen)
}

func (r *Reference) level(now quota.Time) *big.Rat {
	r.advance(now)
	return r.counter.level()
}

// wait returns the time until debt is repaid.
func (r *Reference) wait(now quota.Time) time.Duration {
	b, ok := r.counter.(*bucket)
	if r.advance(now); !ok || b.level().Sign() >= 0 {
		return 0
	}
	if b.rate().Sign() == 0 {
		return math.MaxInt64
	}
	d := ceil(new(big.Rat).Sub(b.tokensNextAvailable, whole(int64(now))))
	if !d.IsInt64() {
		return math.MaxInt64
	}
	return time.Duration(d.Int64())
}

// take is the complete algorithm without RetryAfter.
func (r *Reference) take(now quota.Time, cost quota.Units, maxWait time.Duration) limiter.Decision {
	r.advance(now)
	if cost > quota.FromTokens(r.limit.MostCost()) {
		return limiter.Decision{Never: true}
	}
	debt, patience := quota.Units(0), r.limit.MaxWait
	if r.limit.Kind == quota.TokenBucket {
		debt = r.limit.DebtUnits()
	}
	if maxWait >= 0 {
		patience = min(patience, maxWait)
	}
	left := new(big.Rat).Sub(r.counter.level(), whole(int64(cost)))
	fits := left.Cmp(whole(-int64(debt))) >= 0
	wait := time.Duration(0)
	if debt > 0 {
		wait = r.wait(now)
	}
	if fits && wait <= patience {
		r.counter.add(whole(-int64(cost)))
		return limiter.Decision{Allowed: true, Wait: wait}
	}
	return limiter.Decision{TooLong: fits}
}

func (r *Reference) charge(now quota.Time, used quota.Units) *big.Rat {
	room := new(big.Rat).Add(r.level(now), whole(int64(r.limit.OwedUnits())))
	booked := whole(floor(room).Int64())
	if u := whole(int64(used)); u.Cmp(booked) < 0 {
		booked = u
	}
	if booked.Sign() < 0 {
		booked = new(big.Rat)
	}
	r.counter.add(new(big.Rat).Neg(booked))
	return booked
}

func (r *Reference) retier(now quota.Time, l quota.Limit) {
	r.advance(now)
	r.counter.retier(l.First())
	r.limit = l
	// No level is lower than this, so that sums do not overflow.
	lowest := whole(int64(-quota.FromTokens(quota.MaxTokens) - 1))
	if below := lowest.Sub(lowest, new(big.Rat).SetInt(floor(r.counter.level()))); below.Sign() > 0 {
		r.counter.add(below)
	}
}

func whole(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func units(t quota.Tier) *big.Rat { return whole(int64(t.BurstUnits())) }

func floor(r *big.Rat) *big.Int {
	q, rem := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rem.Sign() < 0 {
		q.Sub(q, big.NewInt(1))
	}
	return q
}

func ceil(r *big.Rat) *big.Int {
	q := floor(new(big.Rat).Neg(r))
	return q.Neg(q)
}
