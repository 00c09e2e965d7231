package limiter

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Meter is the level of one tier of one key: the units that can still be spent. A negative level is debt. Methods
// that take a tier must get the one that the meter was made for, until [Meter.Retier] changes it.
//
// How the level changes without requests:
//
//   - TokenBucket: rises at exactly Rate, up to Burst.
//   - FixedWindow, CalendarWindow: returns to Burst at the end of the window.
//   - PeriodicRefill: returns to Burst one period after the window began. The next window begins with
//     the first use after that: while the meter is full, each Advance moves the window's start to now.
//   - SlidingWindow: gains, during each window, the previous window's use.
//   - Concurrency: stays.
//
// A Meter is a value: copies are independent. It is not safe for concurrent use. The zero Meter is
// not usable.
//
// Invariant: returns is 0 except for SlidingWindow, where it is the gain from start to end.
type Meter struct {
	bucket     Bucket
	start, end quota.Time
	returns    quota.Units
}

// NewMeter returns a full meter.
func NewMeter(t *quota.Tier, now quota.Time) Meter {
	m := Meter{bucket: NewBucket(t.BurstUnits(), now)}
	m.start, m.end = Window(t, now)
	return m
}

// RestoreMeter returns the meter that a checkpoint recorded at the time at, advanced to now. The
// window that began at windowStart keeps its use. If it has ended, the meter is as full as it would
// be without the restart.
//
// windowStart 0 means that the window is unknown: then the one that contains at is assumed. The
// slope is rounded down to units per second, so a restored sliding window may gain up to one unit
// per second too little until it ends; the next window makes up for it.
//
// If the clock that wrote the checkpoint was ahead of now, nothing is earned until now reaches at.
// If it was ahead by more than a window, or the tier is a bucket, the level applies from now on.
func RestoreMeter(t *quota.Tier, level quota.Units, at, windowStart quota.Time, slope quota.Units, now quota.Time) Meter {
	if start, end := Window(t, at); at > now && start.Sub(now) >= end.Sub(start) {
		at, windowStart = now, 0
	}
	m := Meter{bucket: NewBucket(clamp(level), at)}
	m.start, m.end = Window(t, at)
	switch {
	case t.Kind == quota.PeriodicRefill && windowStart != 0:
		m.start, m.end = Window(t, min(windowStart, at))
	case t.Kind.Windowed() && t.Kind != quota.SlidingWindow && windowStart != 0: // Retier keeps an earlier start
		m.start = min(windowStart, at)
	case t.Kind == quota.SlidingWindow && windowStart == m.start:
		per := m.end.Sub(m.start)
		m.returns = clamp(quota.Units(quota.MulDiv(int64(max(slope, 0)), int64(per), int64(time.Second))))
	}
	m.Advance(now, t)
	return m
}

// Level returns the units that can be spent as of the last Advance and the changes since, in whole units rounded
// down. After Advance it is at most the burst.
func (m *Meter) Level() quota.Units { return m.bucket.level }

// Add changes the level by u, which may be negative. The result is clamped to about plus or minus
// MaxTokens, so that nothing overflows.
func (m *Meter) Add(u quota.Units) {
	level := m.bucket.level
	switch {
	case u > 0 && level > maxLevel-min(u, maxLevel):
		m.bucket.level = maxLevel
	case u < 0 && level < -maxLevel-max(u, -maxLevel):
		m.bucket.level = -maxLevel
	default:
		m.bucket.level = clamp(level + u)
	}
}

func clamp(u quota.Units) quota.Units { return min(max(u, -maxLevel), maxLevel) }

// Fill sets the level to top, and forgets the use that a sliding window would return.
func (m *Meter) Fill(top quota.Units) { m.bucket.level, m.bucket.rem, m.returns = clamp(top), 0, 0 }

// Cap lowers the level to top if it is higher.
func (m *Meter) Cap(top quota.Units) { m.bucket.Cap(top) }

// Bounds returns the window of the level as of the last Advance; 0, 0 for kinds without windows.
func (m *Meter) Bounds() (start, end quota.Time) { return m.start, m.end }

// Slope returns the current gain without requests, in units per second rounded down: the rate of a bucket, the
// previous window's use that a sliding window returns, 0 for other kinds. It does not consider whether the level is
// full.
func (m *Meter) Slope(t *quota.Tier) quota.Units {
	switch t.Kind {
	case quota.TokenBucket:
		return t.Rate.PerSecond()
	case quota.SlidingWindow:
		if per := m.end.Sub(m.start); per > 0 {
			return quota.Units(quota.MulDiv(int64(m.returns), int64(time.Second), int64(per)))
		}
	}
	return 0
}

// Advance applies the gain until now and ends windows. A now in the past changes nothing, so a
// clock that jumps back does not earn twice.
func (m *Meter) Advance(now quota.Time, t *quota.Tier) {
	top := t.BurstUnits()
	now = max(now, m.bucket.at)
	switch t.Kind {
	case quota.TokenBucket:
		m.bucket.Refill(now, t.Rate, top)
		return
	case quota.SlidingWindow:
		m.slide(now, t, top)
	case quota.Concurrency:
	default: // windows that end
		unused := t.Kind == quota.PeriodicRefill && m.bucket.level >= top
		if now >= m.end || unused {
			m.start, m.end = Window(t, now)
			m.bucket.level = top
		}
	}
	m.bucket.at = now
	m.Cap(top)
}

// slide advances a sliding window. The use at the end of a window is returned during the next one, so the meter is
// full two windows later.
func (m *Meter) slide(now quota.Time, t *quota.Tier, top quota.Units) {
	m.giveBack(min(now, m.end), top)
	if now < m.end {
		return
	}
	m.bucket.rem = 0
	m.returns = top - m.bucket.level
	m.start, m.end = Window(t, m.end)
	m.giveBack(min(now, m.end), top)
	if now < m.end {
		return
	}
	m.bucket = NewBucket(top, now)
	m.returns = 0
	m.start, m.end = Window(t, now)
}

func (m *Meter) giveBack(until quota.Time, top quota.Units) {
	if dt := until.Sub(m.bucket.at); dt > 0 {
		m.bucket.gain(dt, m.returns, m.end.Sub(m.start))
		m.bucket.at = until
	}
	m.Cap(top)
}

// MeterState is all that a meter consists of.
type MeterState struct {
	Level, Returns quota.Units
	Rem            uint64
	At, Start, End quota.Time
}

// State returns all that the meter consists of.
func (m *Meter) State() MeterState {
	return MeterState{m.bucket.level, m.returns, m.bucket.rem, m.bucket.at, m.start, m.end}
}

// Meter returns the meter of a state.
func (s *MeterState) Meter() Meter {
	return Meter{Bucket{s.Level, s.Rem, s.At}, s.Start, s.End, s.Returns}
}
