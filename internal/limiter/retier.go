package limiter

import (
	"github.com/quorate/quorate/internal/quota"
)

// Retier changes the meter's tier after a change of the limit or of an override. Use is preserved:
// a change neither refills nor resets.
//
//   - A token bucket that remains one keeps its level, capped at the new burst. A larger burst does
//     not fill it, only the rate does. Debt remains.
//   - A counter that remains one (windows, Concurrency) keeps its use: the level becomes the new burst
//     less the use. So an increase adds exactly the difference, and a cut may leave a negative level
//     until the window ends. The window remains if kind, period and calendar do.
//   - A window of another period or kind takes over the use of the old one, however much that is: with
//     9000 used of 10000 a month, 9000 of the new day's count are used until that day ends. So a change
//     that is reverted at once has no effect. It keeps the start of the old one, so that the start always
//     says since when use counts, and ends when the new tier's present window does. A PeriodicRefill window
//     ends one new period after its start, or if that has passed, when the old window does. A sliding window
//     starts without a previous one.
//   - A token bucket that was a window takes over its use, but its level is no lower than empty, or
//     than the debt before: a slow rate would need months to refill a month's use.
//   - A Concurrency that was another kind starts with nothing in flight, because nothing exists that
//     would be released.
func (m *Meter) Retier(now quota.Time, old, next *quota.Tier) {
	m.Advance(now, old)
	if *old == *next {
		return
	}
	if old.Kind == quota.TokenBucket && next.Kind == quota.TokenBucket { // the earned fraction of a unit is converted to the new period
		if per := max(next.Rate.Per, 1); per != old.Rate.Per {
			m.bucket.rem = uint64(quota.MulDiv(int64(m.remainder(old)), int64(per), int64(max(old.Rate.Per, 1))))
		}
		m.Cap(next.BurstUnits())
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

// rewindow sets the window of the new tier.
func (m *Meter) rewindow(old, next *quota.Tier) {
	if old.Kind == next.Kind && old.Rate.Per == next.Rate.Per && old.Calendar == next.Calendar {
		return
	}
	m.bucket.rem, m.returns = 0, 0
	start, end := m.start, m.end
	m.start, m.end = Window(next, m.bucket.at)
	if !old.Kind.Windowed() || !next.Kind.Windowed() {
		return
	}
	m.start = start
	if next.Kind != quota.PeriodicRefill {
		return
	}
	if _, m.end = Window(next, start); m.end <= m.bucket.at {
		m.end = end
	}
}
