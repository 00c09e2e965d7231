package limiter_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/limiter/limitertest"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/zone"
)

// awkward are zones with unusual changes of the clock.
var awkward = []string{
	"UTC", "Europe/Berlin", "America/New_York",
	"America/Sao_Paulo",   // midnights that do not exist
	"Africa/Cairo",        // the same, since 2023 again
	"Asia/Beirut",         // the same
	"America/Havana",      // midnight comes twice
	"America/St_Johns",    // set back over midnight, one minute into the day
	"Atlantic/Azores",     // midnight comes twice
	"Australia/Lord_Howe", // half an hour of daylight saving
	"Pacific/Apia",        // a day that is skipped
	"Pacific/Kwajalein",   // another one
	"Asia/Kathmandu", "Asia/Pyongyang", "America/Caracas", "Antarctica/Troll", "Africa/Casablanca",
}

func in(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := zone.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func at(t testing.TB, s string) quota.Time {
	t.Helper()
	moment, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return quota.Time(moment.UnixNano())
}

// tiles fails unless the window contains the moment and is adjacent to its neighbours.
func tiles(t *testing.T, tier *quota.Tier, now quota.Time) (start, end quota.Time) {
	t.Helper()
	start, end = limiter.Window(tier, now)
	if start > now || now >= end {
		t.Fatalf("%+v at %d: window %d to %d does not contain it", tier, now, start, end)
	}
	for _, inside := range []quota.Time{start, end - 1, start + (end-start)/2} {
		if s, e := limiter.Window(tier, inside); s != start || e != end {
			t.Fatalf("%+v: window of %d is %d to %d, but of %d it is %d to %d", tier, now, start, end, inside, s, e)
		}
	}
	if s, _ := limiter.Window(tier, end); s != end {
		t.Fatalf("%+v: window of %d ends at %d, the next begins at %d", tier, now, end, s)
	}
	if _, e := limiter.Window(tier, start-1); e != start {
		t.Fatalf("%+v: window of %d starts at %d, the one before ends at %d", tier, now, start, e)
	}
	return start, end
}

// TestWindowsTile checks random moments of 1970 to 2100, and those around every change of a clock.
func TestWindowsTile(t *testing.T) {
	from, to := at(t, "1970-01-05T00:00:00Z"), at(t, "2100-01-01T00:00:00Z")
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, name := range awkward {
		z := in(t, name)
		var moments []quota.Time
		for range 300 {
			moments = append(moments, from+quota.Time(rng.Int64N(int64(to-from))))
		}
		for change := from; change < to; {
			_, next := time.Unix(0, int64(change)).In(quota.Calendar{Zone: z}.Location()).ZoneBounds()
			if next.IsZero() {
				break
			}
			if int64(change) >= next.UnixNano() { // the last day of a leap year, see spanAt
				next = time.Unix(0, int64(change)).Add(24 * time.Hour)
			}
			change = quota.Time(next.UnixNano())
			moments = append(moments, change-1, change, change+quota.Time(rng.Int64N(int64(26*time.Hour))))
		}
		for _, unit := range quota.CalendarUnits() {
			tier := quota.Per(1, quota.Calendar{Unit: unit, Zone: z})
			for _, m := range moments {
				tiles(t, &tier, m)
			}
		}
	}
	for _, per := range []time.Duration{1, 7, time.Second, 10 * time.Second, 7 * 24 * time.Hour, 366 * 24 * time.Hour} {
		for _, kind := range []quota.Kind{quota.FixedWindow, quota.SlidingWindow} {
			tier := quota.Window(kind, 1, per)
			for range 200 {
				tiles(t, &tier, quota.Time(rng.Int64()>>rng.IntN(60))-quota.Time(rng.Int64()>>20))
			}
		}
	}
}

// TestCalendarWalks compares with windows found by walking along the clock.
func TestCalendarWalks(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for seconds in one goroutine; left out by -short")
	}
	const seed = 3
	rng := rand.New(rand.NewPCG(seed, 0))
	from, to := at(t, "1973-01-01T00:00:00Z"), at(t, "2037-01-01T00:00:00Z")
	for _, name := range awkward {
		z := in(t, name)
		for i, unit := range quota.CalendarUnits() {
			c := quota.Calendar{Unit: unit, Zone: z}
			tier := quota.Per(1, c)
			for range max(1, 3-i) {
				moment := from + quota.Time(rng.Int64N(int64(to-from)))
				moments := []quota.Time{moment}
				if _, next := time.Unix(0, int64(moment)).In(quota.Calendar{Zone: z}.Location()).ZoneBounds(); !next.IsZero() && unit < quota.Month {
					moments = append(moments, quota.Time(next.UnixNano())-1, quota.Time(next.UnixNano()))
				}
				for _, m := range moments {
					start, end := limiter.Window(&tier, m)
					if s, e := limitertest.Walk(c, m); s != start || e != end {
						t.Errorf("%s, %v of %d: %d to %d, want %d to %d", name, unit, m, start, end, s, e)
					}
				}
			}
		}
	}
}

// TestCalendarDays checks days with which other implementations fail.
func TestCalendarDays(t *testing.T) {
	for _, tc := range []struct {
		zone       string
		unit       quota.CalendarUnit
		at         string
		start, end string
		long       time.Duration
	}{
		{"Europe/Berlin", quota.Day, "2024-03-31T12:00:00+02:00", "2024-03-31T00:00:00+01:00", "2024-04-01T00:00:00+02:00", 23 * time.Hour},
		{"Europe/Berlin", quota.Day, "2024-10-27T12:00:00+01:00", "2024-10-27T00:00:00+02:00", "2024-10-28T00:00:00+01:00", 25 * time.Hour},
		{"America/Sao_Paulo", quota.Day, "2018-11-04T09:00:00-02:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00", 23 * time.Hour},
		{"America/Sao_Paulo", quota.Day, "2018-02-17T23:30:00-03:00", "2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00", 25 * time.Hour},
		{"Africa/Cairo", quota.Day, "2023-04-28T09:00:00+03:00", "2023-04-28T01:00:00+03:00", "2023-04-29T00:00:00+03:00", 23 * time.Hour},
		{"Australia/Lord_Howe", quota.Day, "2024-10-06T09:00:00+11:00", "2024-10-06T00:00:00+10:30", "2024-10-07T00:00:00+11:00", 23*time.Hour + 30*time.Minute},
		{"Australia/Lord_Howe", quota.Day, "2024-04-07T09:00:00+10:30", "2024-04-07T00:00:00+11:00", "2024-04-08T00:00:00+10:30", 24*time.Hour + 30*time.Minute},
		{"Pacific/Apia", quota.Day, "2011-12-29T12:00:00-10:00", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00", 24 * time.Hour},
		{"Pacific/Apia", quota.Day, "2011-12-31T00:00:00+14:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00", 24 * time.Hour},
		{"America/St_Johns", quota.Day, "2010-11-06T23:30:00-03:30", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30", 25 * time.Hour},
		{"America/New_York", quota.Hour, "2024-11-03T01:30:00-04:00", "2024-11-03T01:00:00-04:00", "2024-11-03T01:00:00-05:00", time.Hour},
		{"America/New_York", quota.Hour, "2024-11-03T01:30:00-05:00", "2024-11-03T01:00:00-05:00", "2024-11-03T02:00:00-05:00", time.Hour},
		{"America/New_York", quota.Hour, "2024-03-10T01:30:00-05:00", "2024-03-10T01:00:00-05:00", "2024-03-10T03:00:00-04:00", time.Hour},
		{"Australia/Lord_Howe", quota.Hour, "2024-04-07T01:45:00+10:30", "2024-04-07T01:30:00+10:30", "2024-04-07T02:00:00+10:30", 30 * time.Minute},
		{"Asia/Kathmandu", quota.Hour, "2024-01-01T10:20:00+05:45", "2024-01-01T10:00:00+05:45", "2024-01-01T11:00:00+05:45", time.Hour},
		{"Europe/Berlin", quota.Minute, "2024-01-01T10:20:59+01:00", "2024-01-01T10:20:00+01:00", "2024-01-01T10:21:00+01:00", time.Minute},
		{"Europe/Berlin", quota.Week, "2024-04-07T23:59:59+02:00", "2024-04-01T00:00:00+02:00", "2024-04-08T00:00:00+02:00", 168 * time.Hour},
		{"Europe/Berlin", quota.Week, "2024-03-31T12:00:00+02:00", "2024-03-25T00:00:00+01:00", "2024-04-01T00:00:00+02:00", 167 * time.Hour},
		{"UTC", quota.Month, "2024-02-29T12:00:00Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z", 29 * 24 * time.Hour},
		{"America/New_York", quota.Month, "2024-03-31T23:00:00-04:00", "2024-03-01T00:00:00-05:00", "2024-04-01T00:00:00-04:00", 31*24*time.Hour - time.Hour},
		{"UTC", quota.Year, "2024-07-01T00:00:00Z", "2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z", 366 * 24 * time.Hour},
		// After the end of a zone's table, Go miscounts on the last day of a leap year.
		{"Europe/Berlin", quota.Day, "2040-12-31T12:00:00+01:00", "2040-12-31T00:00:00+01:00", "2041-01-01T00:00:00+01:00", 24 * time.Hour},
		{"Europe/Berlin", quota.Hour, "2040-12-31T23:30:00+01:00", "2040-12-31T23:00:00+01:00", "2041-01-01T00:00:00+01:00", time.Hour},
		{"UTC", quota.Day, "1969-12-31T23:59:59Z", "1969-12-31T00:00:00Z", "1970-01-01T00:00:00Z", 24 * time.Hour},
	} {
		tier := quota.Per(1, quota.Calendar{Unit: tc.unit, Zone: in(t, tc.zone)})
		start, end := tiles(t, &tier, at(t, tc.at))
		if start != at(t, tc.start) || end != at(t, tc.end) || end.Sub(start) != tc.long {
			t.Errorf("%s, %v of %s: %v to %v, %v long; want %s to %s, %v", tc.zone, tc.unit, tc.at,
				time.Unix(0, int64(start)).UTC(), time.Unix(0, int64(end)).UTC(), end.Sub(start), tc.start, tc.end, tc.long)
		}
	}
}

// TestWindowsAtTheEndsOfTime: ends outside the range of Time are cut off, and nothing wraps.
func TestWindowsAtTheEndsOfTime(t *testing.T) {
	const first, last = quota.Time(-1 << 63), quota.Time(1<<63 - 1)
	for _, unit := range quota.CalendarUnits() {
		tier := quota.Per(1, quota.Calendar{Unit: unit})
		if start, end := limiter.Window(&tier, first); start != first || end <= first || end > first.Add(366*24*time.Hour) {
			t.Errorf("first %v: %d to %d", unit, start, end)
		}
		if start, end := limiter.Window(&tier, last); end != last || start >= last || start < last.Add(-366*24*time.Hour) {
			t.Errorf("last %v: %d to %d", unit, start, end)
		}
	}
	tier := quota.Window(quota.FixedWindow, 1, 1000*time.Hour)
	if start, end := limiter.Window(&tier, first); start != first || end <= first || end > first.Add(1000*time.Hour) {
		t.Errorf("first: %d to %d", start, end)
	}
	if start, end := limiter.Window(&tier, last); end != last || start >= last {
		t.Errorf("last: %d to %d", start, end)
	}
	for _, kind := range []quota.Kind{quota.TokenBucket, quota.Concurrency} {
		if start, end := limiter.Window(&quota.Tier{Kind: kind}, 5); start != 0 || end != 0 {
			t.Errorf("%v: window %d to %d", kind, start, end)
		}
	}
}
