package limiter

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Verdict is the answer of a meter to one request.
type Verdict struct {
	Allowed bool
	// Wait is how long an admitted caller has to wait before it goes ahead: the
	// tokens are reserved for it.
	Wait time.Duration
	// RetryAfter is 0 when allowed, else the earliest moment at which the same
	// request could be, if nobody else asks; math.MaxInt64 with Never.
	RetryAfter time.Duration
	// Never says that the request can never pass: it costs more than the limit
	// ever has, or what it lacks takes longer than a Duration can tell (292 years;
	// a rate of 0 gives nothing at all).
	Never bool
	// TooLong says that it was refused only because it would have to wait longer
	// than it may.
	TooLong bool
}

// Take advances the meter and, if the limit lets it pass, takes the cost. The
// limit has one tier. A refusal takes nothing. A cost of 0 or less asks what one
// token would be told, and takes nothing either way.
//
// maxWait is the longest wait that the caller accepts; it can only lower the
// limit's own. Below 0 is the limit's own.
//
// A limit without MaxDebt admits what the level covers. With it, a token bucket
// works as that of square/quotaservice does: a caller waits until the debt of
// those before it is paid, never for its own cost. What it costs beyond the
// level is the debt that the next one waits for, down to MaxDebt.
//
// For a Concurrency, RetryAfter is its lease: releases come when they come, and
// by then those who hold it now have renewed or lost it.
func (m *Meter) Take(now quota.Time, l *quota.Limit, cost quota.Units, maxWait time.Duration) Verdict {
	t := l.First()
	m.Advance(now, &t)
	if cost <= 0 {
		peek := *m
		return peek.take(now, l, &t, quota.Token, maxWait)
	}
	return m.take(now, l, &t, cost, maxWait)
}

func (m *Meter) take(now quota.Time, l *quota.Limit, t *quota.Tier, cost quota.Units, maxWait time.Duration) Verdict {
	if cost > quota.FromTokens(l.MostCost()) {
		return Verdict{RetryAfter: never, Never: true}
	}
	var wait, patience time.Duration
	need := cost // the level from which it fits
	if t.Kind == quota.TokenBucket {
		if need -= l.DebtUnits(); need < cost {
			wait, patience = m.timeTo(now, t, 0), l.MaxWait
		}
	}
	if maxWait >= 0 {
		patience = min(patience, maxWait)
	}
	fits := m.bucket.level >= need
	if fits && wait <= patience {
		m.Add(-cost)
		return Verdict{Allowed: true, Wait: wait}
	}
	retry := m.timeTo(now, t, need)
	if wait == never {
		retry = never
	} else if wait > patience {
		retry = max(retry, wait-patience)
	}
	v := Verdict{RetryAfter: retry, TooLong: fits, Never: retry == never}
	if t.Kind == quota.Concurrency {
		v.RetryAfter, v.Never = l.LeaseOrDefault(), false
	}
	return v
}

// timeTo is how long the meter needs to reach the level, on its own remainder.
func (m *Meter) timeTo(now quota.Time, t *quota.Tier, level quota.Units) time.Duration {
	return m.timeFor(now, t, m.bucket.level, m.remainder(t), level)
}

// Charge books what was used without asking, after the fact. The level falls at
// most to -OwedUnits; what was booked of it is returned.
func (m *Meter) Charge(now quota.Time, l *quota.Limit, used quota.Units) (booked quota.Units) {
	t := l.First()
	m.Advance(now, &t)
	booked = max(0, min(used, m.bucket.level+l.OwedUnits()))
	m.Add(-booked)
	return booked
}

// Refund gives back what was taken and not used, up to the burst. It goes to the
// window of now: who refunds what was taken in a window that has ended would
// raise this one, so it does not ask.
func (m *Meter) Refund(now quota.Time, l *quota.Limit, u quota.Units) {
	t := l.First()
	m.Advance(now, &t)
	m.Add(max(u, 0))
	m.Cap(t.BurstUnits())
}
