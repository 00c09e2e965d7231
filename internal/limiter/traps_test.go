package limiter_test

import (
	"math"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

const now0 = quota.Time(1_700_000_000_000_000_000)

// TestTrapNanosBetweenTokens: quotaservice divides 1e9 by the rate as whole numbers. Above 1e9/s that divides by
// zero, and slightly above 1e9/3 it makes 2 ns of 3: the bucket refills half as fast again.
func TestTrapNanosBetweenTokens(t *testing.T) {
	for _, rate := range []int64{2_000_000_000, 1_000_000_001, 999_999_999, 400_000_000, 333_333_334, 3, 7} {
		l := bucketOf(rate, time.Second, 10_000_000_000)
		m := meterOf(l, now0)
		if !m.Take(now0, l, tokens(10_000_000_000), 0).Allowed {
			t.Fatalf("%d/s: a full bucket refuses its burst", rate)
		}
		if v := m.Take(now0, l, tokens(rate), 0); v.Allowed || v.RetryAfter != time.Second {
			t.Errorf("%d/s: that many come back in %v, want 1s", rate, v.RetryAfter)
		}
		tier := l.First()
		if m.Advance(now0.Add(time.Second), &tier); m.Level() != tokens(rate) {
			t.Errorf("%d/s: %d units in a second", rate, m.Level())
		}
	}
}

// TestTrapFractionDropped: quotaservice sets the time of the last refill to now with every request, whole tokens or
// not. A caller with more frequent requests than tokens then never sees the bucket refill beyond its requests.
func TestTrapFractionDropped(t *testing.T) {
	l := bucketOf(10, time.Second, 100)
	m := meterOf(l, now0)
	m.Take(now0, l, tokens(100), 0)
	now := now0
	passed := 0
	for range 2_000 { // 10 s, a request every 5 ms: a twentieth of a token
		now = now.Add(5 * time.Millisecond)
		if m.Take(now, l, 1, 0).Allowed {
			passed++
		}
	}
	if want := tokens(100) - quota.Units(passed); m.Level() != want {
		t.Errorf("after 10 s at 10/s the level is %d units, want %d", m.Level(), want)
	}
}

// TestTrapGregorianLength: gubernator subtracts milliseconds from nanoseconds, so its months and years do not end at
// the end of a month or year.
func TestTrapGregorianLength(t *testing.T) {
	now := at(t, "2024-02-10T12:00:00Z")
	for unit, want := range map[quota.CalendarUnit]string{quota.Month: "2024-03-01T00:00:00Z", quota.Year: "2025-01-01T00:00:00Z"} {
		l := limitOf(quota.Per(1, quota.Calendar{Unit: unit}))
		m := meterOf(l, now)
		m.Take(now, l, tokens(1), 0)
		if v := m.Take(now, l, tokens(1), 0); now.Add(v.RetryAfter) != at(t, want) {
			t.Errorf("%v: again in %v, want %s", unit, v.RetryAfter, want)
		}
	}
}

// TestTrapLocalZone: the calendar of gubernator is in the time zone of each node's machine. Here it is in the limit's
// zone, by default UTC.
func TestTrapLocalZone(t *testing.T) {
	before := time.Local
	defer func() { time.Local = before }()
	tier := quota.Per(1, quota.Calendar{Unit: quota.Day})
	for _, zone := range []string{"UTC", "Asia/Tokyo", "America/New_York"} {
		if time.Local = in(t, zone); time.Local == nil {
			time.Local = time.UTC
		}
		if start, _ := limiter.Window(&tier, at(t, "2024-05-05T23:00:00Z")); start != at(t, "2024-05-05T00:00:00Z") {
			t.Errorf("on a machine in %s the day starts at %d", zone, start)
		}
	}
}

// TestTrapWeekStart: the week of envoyproxy/ratelimit begins on Thursday, as the epoch did; gubernator has no week.
// Here a week begins on Monday. A fixed window of 7 days is not a week: it is aligned to the epoch, as documented.
func TestTrapWeekStart(t *testing.T) {
	week := quota.Per(1, quota.Calendar{Unit: quota.Week})
	days := quota.Window(quota.FixedWindow, 1, 7*24*time.Hour)
	for tier, want := range map[*quota.Tier]time.Weekday{&week: time.Monday, &days: time.Thursday} {
		start, _ := limiter.Window(tier, now0)
		if got := time.Unix(0, int64(start)).UTC(); got.Weekday() != want || got.Hour() != 0 {
			t.Errorf("%v begins on %v", tier.Kind, got)
		}
	}
}

// TestTrapLimitZero: the leaky bucket of gubernator divides by a limit of 0 and gets infinity. Here a limit of 0 of
// any kind refuses every request.
func TestTrapLimitZero(t *testing.T) {
	for _, kind := range quota.Kinds() {
		tier := quota.Window(kind, 0, time.Minute)
		if kind == quota.CalendarWindow {
			tier = quota.Per(0, quota.Calendar{Unit: quota.Day})
		}
		l := limitOf(tier)
		m := meterOf(l, now0)
		for _, now := range []quota.Time{now0, now0.Add(400 * 24 * time.Hour)} {
			for _, cost := range []quota.Units{1, tokens(1), math.MaxInt64} {
				if v := m.Take(now, l, cost, time.Hour); v.Allowed || !v.Never || v.RetryAfter != math.MaxInt64 {
					t.Errorf("%v: %d units: %+v", kind, cost, v)
				}
			}
			if m.Level() != 0 || m.ResetAfter(now, &tier) != 0 || m.Slope(&tier) != 0 {
				t.Errorf("%v: level %d, full in %v, slope %d", kind, m.Level(), m.ResetAfter(now, &tier), m.Slope(&tier))
			}
		}
	}
}

// TestTrapRateZero: no token is ever added, and no refusal suggests a time to retry.
func TestTrapRateZero(t *testing.T) {
	l := bucketOf(0, time.Second, 2)
	l.MaxWait, l.MaxDebt = time.Minute, time.Hour
	m := meterOf(l, now0)
	if !m.Take(now0, l, tokens(2), 0).Allowed {
		t.Error("what is there can be taken")
	}
	if v := m.Take(now0, l, tokens(1), quota.LimitsWait); v.Allowed || !v.Never {
		t.Errorf("%+v, want never", v)
	}
}

// TestTrapStickyStatus: gubernator keeps OVER_LIMIT with a key after its limit was raised. Here a raise admits
// exactly the difference, at once.
func TestTrapStickyStatus(t *testing.T) {
	for _, kind := range []quota.Kind{quota.FixedWindow, quota.SlidingWindow, quota.PeriodicRefill, quota.Concurrency, quota.CalendarWindow} {
		before, after := quota.Window(kind, 10, time.Hour), quota.Window(kind, 15, time.Hour)
		if kind == quota.CalendarWindow {
			c := quota.Calendar{Unit: quota.Day}
			before, after = quota.Per(10, c), quota.Per(15, c)
		}
		l, raised := limitOf(before), limitOf(after)
		m := meterOf(l, now0)
		if !m.Take(now0, l, tokens(10), 0).Allowed || m.Take(now0, l, tokens(1), 0).Allowed {
			t.Fatalf("%v: ten and no more", kind)
		}
		m.Retier(now0, &before, &after)
		if m.Take(now0, raised, tokens(6), 0).Allowed || !m.Take(now0, raised, tokens(5), 0).Allowed {
			t.Errorf("%v: a raise by 5 gives 5", kind)
		}
	}
}

// TestTrapChangeRefills: in quotaservice any change of a namespace creates all its buckets again, full. Here a
// thousand changes add nothing.
func TestTrapChangeRefills(t *testing.T) {
	day := quota.Calendar{Unit: quota.Day}
	for _, pair := range [][2]quota.Tier{
		{{Rate: quota.Rate{Tokens: 10, Per: time.Hour}, Burst: 10}, {Rate: quota.Rate{Tokens: 7, Per: time.Hour}, Burst: 100}},
		{{Rate: quota.Rate{Tokens: 10, Per: time.Hour}, Burst: 10}, {Rate: quota.Rate{Tokens: 1, Per: 7 * time.Minute}, Burst: 3}},
		{quota.Window(quota.FixedWindow, 10, time.Hour), quota.Window(quota.FixedWindow, 100, time.Hour)},
		{quota.Window(quota.FixedWindow, 10, time.Hour), quota.Window(quota.SlidingWindow, 5, 24*time.Hour)},
		{quota.Window(quota.SlidingWindow, 10, time.Hour), quota.Window(quota.SlidingWindow, 3, time.Hour)},
		{quota.Window(quota.PeriodicRefill, 10, time.Hour), quota.Window(quota.PeriodicRefill, 10, 2*time.Hour)},
		{quota.Per(10, day), quota.Per(1000, quota.Calendar{Unit: quota.Month})},
		{{Kind: quota.Concurrency, Burst: 10}, {Kind: quota.Concurrency, Burst: 1}},
		{{Rate: quota.Rate{Tokens: 10, Per: time.Hour}, Burst: 10}, quota.Window(quota.FixedWindow, 10, time.Hour)},
	} {
		l := limitOf(pair[0])
		m := meterOf(l, now0)
		m.Take(now0, l, tokens(10), 0)
		for range 500 {
			m.Retier(now0, &pair[0], &pair[1])
			m.Retier(now0, &pair[1], &pair[0])
		}
		if m.Level() > 0 {
			t.Errorf("%+v and back: level %d units, want none", pair[1], m.Level())
		}
	}
}

// TestTrapBoundary: in epoch-aligned windows, those of envoyproxy/ratelimit, twice the limit can pass within no time
// around the end of a window. Fixed windows here do the same, as documented. In a sliding window of n per period, no
// time span d admits more than n + n x d/period, for any caller at any time. (Over a whole period that is 2n too, but
// only for a caller that uses up one window in its last moment and then takes the returned use, evenly, as from a
// token bucket of n per period.)
func TestTrapBoundary(t *testing.T) {
	const n, per = 100, time.Minute
	end := quota.Time(per) * (now0/quota.Time(per) + 1)
	attack := func(kind quota.Kind) (passed int64) {
		l := limitOf(quota.Window(kind, n, per))
		m := meterOf(l, now0)
		for _, now := range []quota.Time{end.Add(-time.Millisecond), end, end.Add(time.Millisecond)} {
			for range 3 * n {
				if m.Take(now, l, tokens(1), 0).Allowed {
					passed++
				}
			}
		}
		return passed
	}
	if got := attack(quota.FixedWindow); got != 2*n {
		t.Errorf("fixed: %d pass around the boundary; the documents say %d", got, 2*n)
	}
	if got := attack(quota.SlidingWindow); got != n {
		t.Errorf("sliding: %d pass around the boundary, want %d", got, n)
	}
	for _, step := range []time.Duration{7 * time.Millisecond, 400 * time.Millisecond, 3100 * time.Millisecond, 17 * time.Second} {
		for _, quiet := range []time.Duration{0, 59999 * time.Millisecond, 31 * time.Second} {
			envelope(t, n, per, step, quiet)
		}
	}
}

// envelope takes greedily at every step, except during the time quiet of every period and a half, and compares every
// time span with its bound.
func envelope(t *testing.T, n int64, per, step, quiet time.Duration) {
	t.Helper()
	l := limitOf(quota.Window(quota.SlidingWindow, n, per))
	m := meterOf(l, now0)
	type taken struct {
		at   time.Duration
		sum  int64 // up to and including it
		here int64
	}
	var all []taken
	sum := int64(0)
	for at := time.Duration(0); at < 5*per; at += step {
		if at%(3*per/2) < quiet {
			continue
		}
		here := int64(0)
		for m.Take(now0.Add(at), l, tokens(1), 0).Allowed {
			here++
		}
		if here > 0 {
			sum += here
			all = append(all, taken{at, sum, here})
		}
	}
	for i, from := range all {
		for _, to := range all[i:] {
			got, d := to.sum-from.sum+from.here, to.at-from.at
			if float64(got) > float64(n)*(1+float64(d)/float64(per))+1e-6 {
				t.Fatalf("step %v, quiet %v: %d pass in %v", step, quiet, got, d)
			}
		}
	}
	if sum < n {
		t.Errorf("step %v, quiet %v: only %d passed", step, quiet, sum)
	}
}

// TestTrapRefusedIsCharged: envoyproxy/ratelimit increments a counter that is over its limit, so a caller that keeps
// trying is refused for longer. Here a refusal leaves the meter unchanged, for every kind.
func TestTrapRefusedIsCharged(t *testing.T) {
	for _, tier := range []quota.Tier{bucketTier, fixedTier, slidingTier, periodicTier, flightTier, quota.Per(10, quota.Calendar{Unit: quota.Day})} {
		l := limitOf(tier)
		m := meterOf(l, now0)
		m.Take(now0, l, tokens(tier.Burst-1), 0)
		before := m
		for range 1000 {
			if m.Take(now0, l, tokens(2), 0).Allowed || m.Take(now0, l, tokens(tier.Burst+1), time.Hour).Allowed {
				t.Fatalf("%v: one is left, and two passed", tier.Kind)
			}
		}
		if m != before || !m.Take(now0, l, tokens(1), 0).Allowed {
			t.Errorf("%v: 2000 refusals took %d units", tier.Kind, before.Level()-m.Level())
		}
	}
}

// TestTrapWaitOverride: the wait that callers of quotaservice may give lowers the limit's and never raises it,
// although it is called an override. Here it is the same, and such refusals have a reason of their own.
func TestTrapWaitOverride(t *testing.T) {
	l := bucketOf(1, time.Second, 1)
	l.MaxWait, l.MaxDebt = 5*time.Second, time.Minute
	for _, tc := range []struct {
		owed, asked, want time.Duration // want below 0: refused
	}{
		{2 * time.Second, quota.LimitsWait, 2 * time.Second},
		{2 * time.Second, time.Second, -1},
		{2 * time.Second, 0, -1},
		{9 * time.Second, time.Hour, -1},
		{9 * time.Second, quota.LimitsWait, -1},
	} {
		m := meterOf(l, now0)
		m.Add(-m.Level() - tokens(int64(tc.owed/time.Second)))
		v := m.Take(now0, l, tokens(1), tc.asked)
		if v.Allowed != (tc.want >= 0) || v.Allowed && v.Wait != tc.want || !v.Allowed && !v.TooLong {
			t.Errorf("%v owed, may wait %v: %+v, want a wait of %v", tc.owed, tc.asked, v, tc.want)
		}
	}
}
