package limiter

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Decision is a meter's answer to one request.
type Decision struct {
	Allowed bool
	// Wait is how long an admitted caller must wait before it proceeds: its tokens are reserved.
	Wait time.Duration
	// RetryAfter is 0 if allowed, otherwise the time until the same request could pass without other requests;
	// math.MaxInt64 with Never.
	RetryAfter time.Duration
	// Never reports that the request can never pass: it costs more than the limit ever has, or the
	// wait exceeds a Duration (292 years; a rate of 0).
	Never bool
	// TooLong reports that the only reason for the refusal is that the wait would be too long.
	TooLong bool
}

// Take advances the meter and takes the cost if the limit admits it. The limit must have one tier.
// A refusal takes nothing. A cost of 0 or less returns the answer for one token and takes nothing.
//
// maxWait is the longest wait that the caller accepts; it can only shorten the limit's own. Below 0
// means the limit's own.
//
// A limit without MaxDebt admits costs that the level covers. With it, a token bucket works as that of
// square/quotaservice: a caller waits until the debt of earlier callers is repaid, never for its own cost. The part
// of its cost beyond the level is debt for the next caller, down to MaxDebt.
//
// For Concurrency, RetryAfter is the lease: releases cannot be predicted, and by then each holder
// has renewed or lost its acquisition.
func (m *Meter) Take(now quota.Time, l *quota.Limit, cost quota.Units, maxWait time.Duration) Decision {
	t := l.First()
	m.Advance(now, &t)
	if cost <= 0 {
		peek := *m
		return peek.take(now, l, &t, quota.Token, maxWait)
	}
	return m.take(now, l, &t, cost, maxWait)
}

func (m *Meter) take(now quota.Time, l *quota.Limit, t *quota.Tier, cost quota.Units, maxWait time.Duration) Decision {
	if cost > quota.FromTokens(l.MostCost()) {
		return Decision{RetryAfter: never, Never: true}
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
		return Decision{Allowed: true, Wait: wait}
	}
	retry := m.timeTo(now, t, need)
	if wait == never {
		retry = never
	} else if wait > patience {
		retry = max(retry, wait-patience)
	}
	v := Decision{RetryAfter: retry, TooLong: fits, Never: retry == never}
	if t.Kind == quota.Concurrency {
		v.RetryAfter, v.Never = l.LeaseOrDefault(), false
	}
	return v
}

// timeTo returns how long the meter, with its remainder, needs to reach the level.
func (m *Meter) timeTo(now quota.Time, t *quota.Tier, level quota.Units) time.Duration {
	return m.timeFor(now, t, m.bucket.level, m.remainder(t), level)
}

// Refund returns tokens that were taken and not used, up to the burst. They are added to the current window: callers
// must not refund a cost that was taken in a window that has ended.
func (m *Meter) Refund(now quota.Time, l *quota.Limit, u quota.Units) {
	t := l.First()
	m.Advance(now, &t)
	m.Add(max(u, 0))
	m.Cap(t.BurstUnits())
}
