package limiter

import (
	"github.com/quorate/quorate/internal/quota"
)

// Retier changes the meter's tier to another one: the limit was changed, or an
// override of it. What was used stays used, so a change neither refills nor
// resets:
//
//   - A token bucket that stays one keeps its level, capped at the new burst. A
//     larger burst does not fill it, only the rate does; debt stays.
//   - A counter that stays one (windows, Concurrency) keeps what is used: its level
//     becomes the new burst less that. So a raise gives exactly the difference,
//     and a cut may leave a level below zero until the window ends. The window
//     stays if the kind, period and calendar do.
//   - A window of another period or kind takes over what was used in the old one,
//     however much that is: 9000 used of 10000 a month are used of the new day's
//     count too, until that day ends. So a change that is taken back at once is
//     as if it had not been. A sliding window has no memory of a window before.
//     PeriodicRefill keeps the start of its window, unless it would have ended
//     by now: then it ends when it would have.
//   - A token bucket that was a window takes over what was used, but at most down
//     to empty, or what was owed already: a month's use would else take a slow
//     rate months to refill.
//   - A Concurrency that was another kind starts with nothing in flight, for
//     nothing is that would ever be released.
func (m *Meter) Retier(now quota.Time, old, next *quota.Tier) {
	m.Advance(now, old)
	if *old == *next {
		return
	}
	if old.Kind == quota.TokenBucket && next.Kind == quota.TokenBucket {
		m.rebucket(old, next)
		return
	}
	level, burst := m.bucket.level, next.BurstUnits()
	carried := clamp(burst - (old.BurstUnits() - level))
	switch {
	case next.Kind == quota.TokenBucket:
		carried = max(carried, min(level, 0))
	case next.Kind == quota.Concurrency && old.Kind != quota.Concurrency:
		carried = burst
	}
	m.bucket.level = carried
	m.rewindow(old, next)
	m.Cap(burst)
}

// rebucket keeps the earned part of a unit, as parts of the new period.
func (m *Meter) rebucket(old, next *quota.Tier) {
	if per := max(next.Rate.Per, 1); per != old.Rate.Per {
		m.bucket.rem = uint64(quota.MulDiv(int64(m.remainder(old)), int64(per), int64(max(old.Rate.Per, 1))))
	}
	m.Cap(next.BurstUnits())
}

// rewindow gives the meter the window of the new tier.
func (m *Meter) rewindow(old, next *quota.Tier) {
	if old.Kind == next.Kind && old.Rate.Per == next.Rate.Per && old.Calendar == next.Calendar {
		return
	}
	m.bucket.rem, m.returns = 0, 0
	at := m.bucket.at
	if old.Kind != quota.PeriodicRefill || next.Kind != quota.PeriodicRefill {
		m.start, m.end = Window(next, at)
		return
	}
	if _, end := Window(next, m.start); end > at {
		m.end = end
	}
}
