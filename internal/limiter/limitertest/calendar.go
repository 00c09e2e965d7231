package limitertest

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// calendarName names the calendar window that contains the moment. The name of a minute or an hour
// is the time that the zone's clock shows and its offset from UTC. That of a longer unit comes from
// the latest date that the clock has shown, found by looking at it once a minute over the last two
// days. The zones under test change their clocks only on whole minutes since 1970.
func calendarName(c quota.Calendar, at quota.Time) string {
	t := time.Unix(0, int64(at)).In(c.Location())
	switch c.Unit {
	case quota.Minute:
		return t.Format("2006-01-02 15:04 -07:00:00")
	case quota.Hour:
		return t.Format("2006-01-02 15 -07:00:00")
	}
	latest := dayNumber(t)
	minute := t.Truncate(time.Minute)
	for range 48 * 60 {
		latest = max(latest, dayNumber(minute))
		minute = minute.Add(-time.Minute)
	}
	day := time.Unix(latest*86400, 0).UTC()
	switch c.Unit {
	case quota.Day:
		return day.Format("2006-01-02")
	case quota.Week:
		year, week := day.ISOWeek()
		return fmt.Sprint(year, "-W", week)
	case quota.Month:
		return day.Format("2006-01")
	}
	return day.Format("2006")
}

// dayNumber returns the number of the shown date, in days since 1970-01-01.
func dayNumber(t time.Time) int64 {
	_, offset := t.Zone()
	shown := t.Unix() + int64(offset)
	if shown < 0 {
		shown -= 86399
	}
	return shown / 86400
}

// Walk returns the calendar window that contains the moment by stepping in both directions until
// the name changes: by days, hours, minutes and seconds.
func Walk(c quota.Calendar, at quota.Time) (start, end quota.Time) {
	steps := []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second}
	if c.Unit <= quota.Hour {
		steps = steps[3:] // an hour may be cut anywhere, and its name come again
		if c.Unit == quota.Hour {
			steps = []time.Duration{time.Minute, time.Second}
		}
	}
	name := calendarName(c, at)
	at -= (at%quota.Time(time.Second) + quota.Time(time.Second)) % quota.Time(time.Second)
	start, end = at, at
	for _, step := range steps {
		for calendarName(c, start.Add(-step)) == name {
			start = start.Add(-step)
		}
		for calendarName(c, end.Add(step)) == name {
			end = end.Add(step)
		}
	}
	return start, end.Add(time.Second)
}
