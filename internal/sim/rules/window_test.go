package rules

import (
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// gangAt makes a gang whose clocks show that moment.
func gangAt(t *testing.T, at time.Time, n int, limits ...quota.Limit) *gang {
	t.Helper()
	g := newGang(t, 0)
	g.now = quota.Time(at.UnixNano())
	for i := range n {
		g.members = append(g.members, aggregator.New(aggregator.Config{
			Self: quota.NodeID([]string{"m0", "m1", "m2"}[i]), Incarnation: 1, Nodes: n, Ranges: 1, Overrides: g.over,
		}, g.now))
	}
	g.ledger = nil
	g.limits(limits...)
	g.elect(nil)
	return g
}

// TestWindowBoundaries: just before its window ends a key that is used up is
// refused and told when that is; at the end it is full, once, for all members
// together. Calendar days follow the zone's clock, 23 and 25 hours long when that
// changes.
func TestWindowBoundaries(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	utc := func(s string) time.Time {
		at, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	calendar := func(u quota.CalendarUnit, z *time.Location) quota.Tier {
		return quota.Per(10, quota.Calendar{Unit: u, Zone: z})
	}
	seen := []quota.Kind{quota.SlidingWindow} // has no end: TestSlidingWindow
	for _, tc := range []struct {
		name        string
		tier        quota.Tier
		begin, ends string
	}{
		{"fixed minute", quota.Window(quota.FixedWindow, 10, time.Minute), "2026-03-01T10:00:20Z", "2026-03-01T10:01:00Z"},
		{"fixed 7 days begin on Thursdays", quota.Window(quota.FixedWindow, 10, 7*day), "2026-03-04T23:59:30Z", "2026-03-05T00:00:00Z"},
		{"periodic from its first use", quota.Window(quota.PeriodicRefill, 10, time.Minute), "2026-03-01T10:00:20Z", "2026-03-01T10:01:20Z"},
		{"minute", calendar(quota.Minute, nil), "2026-03-01T10:00:20Z", "2026-03-01T10:01:00Z"},
		{"hour", calendar(quota.Hour, nil), "2026-03-01T10:59:20Z", "2026-03-01T11:00:00Z"},
		{"day", calendar(quota.Day, berlin), "2026-03-01T22:59:30Z", "2026-03-01T23:00:00Z"},
		{"week begins on Monday", calendar(quota.Week, nil), "2026-03-01T23:59:30Z", "2026-03-02T00:00:00Z"},
		{"month", calendar(quota.Month, nil), "2026-02-28T23:59:30Z", "2026-03-01T00:00:00Z"},
		{"year", calendar(quota.Year, berlin), "2026-12-31T22:59:30Z", "2026-12-31T23:00:00Z"},
		{"day of 23 hours", calendar(quota.Day, berlin), "2026-03-29T21:59:30Z", "2026-03-29T22:00:00Z"},
		{"day of 25 hours", calendar(quota.Day, berlin), "2026-10-25T22:59:30Z", "2026-10-25T23:00:00Z"},
	} {
		seen = append(seen, tc.tier.Kind)
		t.Run(tc.name, func(t *testing.T) {
			g := gangAt(t, utc(tc.begin), 2, ruleOf("l", tc.tier, hard))
			k, end := key("l", "k"), quota.Time(utc(tc.ends).UnixNano())
			all := func() (passed int) { // what is hard may lie with the other member for a moment
				for range 5 {
					passed += g.drain(0, k, 6-min(passed, 5)) + g.drain(1, k, 20)
					g.pass(300 * time.Millisecond)
				}
				return passed
			}
			if n := all(); n != 10 {
				t.Fatalf("%d of 10 passed in the first window", n)
			}
			if tc.tier.Kind == quota.PeriodicRefill { // it begins when the leader hears of the first use
				heard := g.now.Add(g.take(0, k, 1).RetryAfter)
				if off := heard.Sub(end); off < -20*time.Millisecond || off > 1200*time.Millisecond {
					t.Errorf("ends %v after the first use and a period", off)
				}
				end = heard
			}
			g.pass(end.Sub(g.now) - 20*time.Millisecond)
			d := g.take(0, k, 1)
			off := g.now.Add(d.RetryAfter).Sub(end)
			if d.Allowed || off > 20*time.Millisecond || off < -20*time.Millisecond || d.ResetAfter > d.RetryAfter {
				t.Errorf("%v before the end: allowed %v, again in %v", end.Sub(g.now), d.Allowed, d.RetryAfter)
			}
			g.pass(end.Sub(g.now) + 10*time.Millisecond)
			if n := all(); n != 10 {
				t.Errorf("%d of 10 passed in the next window", n)
			}
		})
	}
	for _, k := range quota.Kinds() {
		if k.Windowed() && !slices.Contains(seen, k) {
			t.Errorf("no case has a window of the kind %v", k)
		}
	}
}

// TestDayOverClockChange drives the clock through the night of a change, hour by
// hour: one day's count each.
func TestDayOverClockChange(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, month := range []time.Month{time.March, time.October} {
		last := map[time.Month]int{time.March: 29, time.October: 25}[month]
		from := time.Date(2026, month, last-1, 12, 0, 0, 0, berlin)
		g := gangAt(t, from, 1, ruleOf("l", quota.Per(10, quota.Calendar{Unit: quota.Day, Zone: berlin})))
		k := key("l", "k")
		passed := map[int]int{}
		for now := from; now.Day() != last+2 && now.Month() == month; now = now.Add(30 * time.Minute) {
			g.now = quota.Time(now.UnixNano())
			g.sync()
			passed[now.In(berlin).Day()] += g.drain(0, k, 20)
			g.pass(time.Second)
		}
		for d := last - 1; d <= last+1; d++ {
			if passed[d] != 10 {
				t.Errorf("%v %d: %d passed, want 10", month, d, passed[d])
			}
		}
	}
}

// TestSlidingWindow: what was used comes back in proportion over the next period,
// so that no boundary lets twice the limit pass.
func TestSlidingWindow(t *testing.T) {
	g := gangAt(t, time.Unix(1_000_000_000-1_000_000_000%60, 0), 1, ruleOf("l", quota.Window(quota.SlidingWindow, 60, time.Minute)))
	k := key("l", "k")
	g.pass(50 * time.Second)
	if n := g.drain(0, k, 100); n != 60 {
		t.Fatalf("%d passed", n)
	}
	g.pass(20 * time.Second) // ten seconds into the next: ten are back
	if n := g.drain(0, k, 100); n < 9 || n > 11 {
		t.Errorf("%d passed around the boundary, want 10", n)
	}
	g.pass(2 * time.Minute)
	if n := g.drain(0, k, 100); n != 60 {
		t.Errorf("%d passed two windows later, want all", n)
	}
}

// TestLateReport: what was used before the end of a window and is told after it
// is not charged to the next one.
func TestLateReport(t *testing.T) {
	for _, tier := range []quota.Tier{
		quota.Window(quota.FixedWindow, 10, time.Minute),
		quota.Per(10, quota.Calendar{Unit: quota.Minute}),
		quota.Window(quota.PeriodicRefill, 10, time.Minute),
	} {
		for _, after := range []int{0, 3} { // used in the new window, told in the same report
			g := gangAt(t, time.Unix(1_000_000_020, 0), 2, ruleOf("l", tier))
			k := key("l", "k")
			g.take(0, k, 1)
			g.pass(500 * time.Millisecond)
			end := g.now.Add(g.take(0, k, 0).ResetAfter)
			g.pass(end.Sub(g.now) - 15*time.Millisecond)
			g.cut = true
			for range 6 {
				if d := g.members[0].Check(g.clock, k.LimitName, k.Key, 1); !d.Allowed {
					t.Fatalf("6 of 9: %v", d.Why)
				}
			}
			g.now = end.Add(time.Millisecond)
			for range after {
				g.members[0].Check(g.clock, k.LimitName, k.Key, 1)
			}
			g.pass(100 * time.Millisecond)
			g.cut = false
			g.pass(1200 * time.Millisecond)
			if got := g.level(k); got != quota.FromTokens(int64(10-after)) {
				t.Errorf("%v: level %d with %d used in the new window", tier.Kind, got, after)
			}
		}
	}
}
