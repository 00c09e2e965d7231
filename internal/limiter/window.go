package limiter

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Window returns the window of a windowed tier that contains the moment: start <= at < end. The
// next window starts at end.
//
// Fixed and sliding windows are multiples of the period since the Unix epoch; windows of 7 days
// begin on Thursdays. Calendar windows follow the clock of the tier's zone (see calendarWindow);
// weeks begin on Monday. PeriodicRefill has no aligned windows: Window returns the one that would
// begin at the moment. Kinds without windows return 0, 0.
//
// Ends outside the range of Time (the years 1677 to 2262) are cut off.
func Window(t *quota.Tier, at quota.Time) (start, end quota.Time) {
	switch t.Kind {
	case quota.FixedWindow, quota.SlidingWindow:
		return alignedWindow(at, t.Rate.Per)
	case quota.CalendarWindow:
		return calendarWindow(at, t.Calendar)
	case quota.PeriodicRefill:
		return at, at.Add(t.Rate.Per)
	}
	return 0, 0
}

func alignedWindow(at quota.Time, per time.Duration) (start, end quota.Time) {
	if per <= 0 {
		return at, at
	}
	into := time.Duration(at) % per
	if into < 0 {
		into += per
	}
	return at.Add(-into), at.Add(per - into)
}
