package limiter

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// calendarWindow returns the calendar window that contains the moment. Windows cover time without
// gap or overlap whatever the zone's clock does:
//
//   - A day, week, month or year begins when the zone's clock first shows its midnight or a later
//     time. So days have 23, 24 or 25 hours; if midnight is skipped, the day begins at the first
//     moment after it; a day that is skipped entirely has no window; and if the clock is set back over
//     midnight, the day that has begun continues.
//   - A minute or hour ends when the clock shows the next one, or when it is set forward or back. So
//     an hour that occurs twice is two windows.
func calendarWindow(at quota.Time, c quota.Calendar) (start, end quota.Time) {
	zone, sec := c.Location(), floorDiv(int64(at), int64(time.Second))
	var from, to int64
	switch c.Unit {
	case quota.Minute, quota.Hour:
		from, to = clockWindow(sec, zone, int64(c.Unit.Nominal()/time.Second))
	default:
		from, to = dateWindow(sec, zone, c.Unit)
	}
	return fromSeconds(from), fromSeconds(to)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// fromSeconds converts seconds since the Unix epoch, saturating.
func fromSeconds(s int64) quota.Time {
	const most = math.MaxInt64 / int64(time.Second)
	switch {
	case s > most:
		return math.MaxInt64
	case s < -most:
		return math.MinInt64
	}
	return quota.Time(s * int64(time.Second))
}

// span is a period, in seconds since the Unix epoch, during which a zone's clock is offset seconds
// ahead of UTC.
type span struct{ from, to, offset int64 }

const (
	secondsPerDay = 24 * 60 * 60
	// Open ends of the first and the last span.
	distantPast   = math.MinInt64 / 2
	distantFuture = math.MaxInt64 / 2
)

// spanAt returns the span that contains the second.
func spanAt(sec int64, zone *time.Location) span {
	t := time.Unix(sec, 0).In(zone)
	_, offset := t.Zone()
	s := span{distantPast, distantFuture, int64(offset)}
	from, to := t.ZoneBounds()
	if !from.IsZero() {
		s.from = from.Unix()
	}
	if !to.IsZero() {
		s.to = to.Unix()
	}
	if s.to <= sec {
		// On the last day of a leap year, far in the future, ZoneBounds (of Go 1.26)
		// returns an end that has passed: it counts 365 days. That error ends with
		// the year; nothing changes its clock on that day.
		s.to = (floorDiv(sec, secondsPerDay) + 1) * secondsPerDay
	}
	return s
}

// clockWindow returns the window of a unit of a number of seconds, as shown by the clock.
func clockWindow(sec int64, zone *time.Location, unit int64) (from, to int64) {
	s := spanAt(sec, zone)
	from = floorDiv(sec+s.offset, unit)*unit - s.offset
	to = from + unit
	// A zone's name can change without its clock: only a jump cuts.
	for before := s; before.from > from; {
		cut := before.from
		if before = spanAt(cut-1, zone); before.offset != s.offset {
			from = cut
		}
	}
	for after := s; after.to < to; {
		cut := after.to
		if after = spanAt(cut, zone); after.offset != s.offset {
			to = cut
		}
	}
	return from, to
}

// dateWindow returns the window of a unit of whole days. Dates are represented by the second at
// which they would begin in UTC.
func dateWindow(sec int64, zone *time.Location, unit quota.CalendarUnit) (from, to int64) {
	date := firstDay(sec+spanAt(sec, zone).offset, unit)
	for {
		next := nextDay(date, unit)
		if to = begins(next, zone); to > sec {
			return begins(date, zone), to
		}
		date = next // set back over midnight: the later day has begun
	}
}

// firstDay returns the first day of the unit that contains the clock time face.
func firstDay(face int64, unit quota.CalendarUnit) int64 {
	t := time.Unix(face, 0).UTC()
	y, m, d := t.Date()
	switch unit {
	case quota.Week:
		d -= (int(t.Weekday()) + 6) % 7
	case quota.Month:
		d = 1
	case quota.Year:
		m, d = time.January, 1
	}
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix()
}

// nextDay returns the first day of the unit after the one that begins with date.
func nextDay(date int64, unit quota.CalendarUnit) int64 {
	t := time.Unix(date, 0).UTC()
	switch unit {
	case quota.Week:
		t = t.AddDate(0, 0, 7)
	case quota.Month:
		t = t.AddDate(0, 1, 0)
	case quota.Year:
		t = t.AddDate(1, 0, 0)
	default:
		t = t.AddDate(0, 0, 1)
	}
	return t.Unix()
}

// begins returns the first moment at which the zone's clock shows the date or a later one.
func begins(date int64, zone *time.Location) int64 {
	for at := date - 2*secondsPerDay; ; { // no clock is two days ahead of UTC
		s := spanAt(at, zone)
		if shown := max(s.from, date-s.offset); shown < s.to {
			return shown
		}
		at = s.to
	}
}
