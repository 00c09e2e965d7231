package rules

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// oneRangeAt returns a range whose clocks show that moment.
func oneRangeAt(t *testing.T, at time.Time, n int, limits ...quota.Limit) *oneRange {
	t.Helper()
	g := newOneRange(t, 0)
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

// TestWindowBoundaries checks that a used-up key is refused until just before its window ends, with
// the end as retry time, and is full at the end, once for all members together. Calendar days
// follow the zone's clock and last 23 or 25 hours at a clock change.
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
			g := oneRangeAt(t, utc(tc.begin), 2, ruleOf("l", tc.tier, hard))
			k, end := key("l", "k"), quota.Time(utc(tc.ends).UnixNano())
			all := func() (passed int) { // the other member may hold hard tokens for a moment
				for range 5 {
					passed += g.drain(0, k, 6-min(passed, 5)) + g.drain(1, k, 20)
					g.pass(300 * time.Millisecond)
				}
				return passed
			}
			if n := all(); n != 10 {
				t.Fatalf("%d of 10 passed in the first window", n)
			}
			if tc.tier.Kind == quota.PeriodicRefill { // it begins when the leader learns of the first use
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

// TestDayOverClockChange steps through the night of a clock change, hour by hour, and checks that
// each day has one day's count.
func TestDayOverClockChange(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, month := range []time.Month{time.March, time.October} {
		last := map[time.Month]int{time.March: 29, time.October: 25}[month]
		from := time.Date(2026, month, last-1, 12, 0, 0, 0, berlin)
		g := oneRangeAt(t, from, 1, ruleOf("l", quota.Per(10, quota.Calendar{Unit: quota.Day, Zone: berlin})))
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

// TestSlidingWindow checks that used tokens return in proportion over the next period, so that no
// boundary admits twice the limit.
func TestSlidingWindow(t *testing.T) {
	g := oneRangeAt(t, time.Unix(1_000_000_000-1_000_000_000%60, 0), 1, ruleOf("l", quota.Window(quota.SlidingWindow, 60, time.Minute)))
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

// member returns m0 in the given incarnation.
func (g *oneRange) member(inc quota.Incarnation, j *journal) *aggregator.Aggregator {
	cfg := aggregator.Config{Self: "m0", Incarnation: inc, Nodes: len(g.members), Ranges: 1}
	if j != nil {
		cfg.Journal = j
	}
	m := aggregator.New(cfg, g.now)
	m.SetLimits(g.now, g.set)
	m.SetLeader(0, "m0", g.term)
	return m
}

// journal keeps what the first process of a member counted.
type journal struct{ list []quota.RecoveredCounts }

func (j *journal) Slot(k quota.Key, epoch quota.Seq) aggregator.JournalSlot {
	j.list = append(j.list, quota.RecoveredCounts{Opening: quota.Opening{Key: k, Incarnation: 1, Epoch: epoch}})
	return place{j, len(j.list) - 1}
}

func (*journal) Settled(quota.Key, quota.Incarnation, quota.Seq) {}

type place struct {
	*journal
	at int
}

func (p place) Set(c quota.Counts) { p.list[p.at].Counts = c }
func (place) Free()                {}

// TestLateRefund checks that a refund before the end of a window counts in that window alone, no
// matter who learns of it when: a hard window must not be exceeded, and a soft one must not report
// more.
func TestLateRefund(t *testing.T) {
	const most = 10
	for _, tier := range []quota.Tier{
		quota.Window(quota.FixedWindow, most, time.Minute),
		quota.Per(most, quota.Calendar{Unit: quota.Minute}),
		quota.Window(quota.PeriodicRefill, most, time.Minute),
	} {
		for _, c := range []quota.Ceiling{quota.Hard, quota.Soft} {
			for name, tc := range map[string]struct {
				lost    bool  // reports of the refund are lost until the window has ended
				elected bool  // the leader that learned of it dies before the log has it
				dies    bool  // then the member's process ends, and its journal reports
				more    int64 // refunded in the next window as well
			}{
				"lost until the next window":                {lost: true},
				"lost, and more is given back in the next":  {lost: true, more: 3},
				"heard by a leader that has not logged it":  {elected: true},
				"heard, and more is given back in the next": {more: 3},
				"told by a journal":                         {lost: true, dies: true},
			} {
				t.Run(fmt.Sprintf("%v, %v, %s", tier.Kind, c, name), func(t *testing.T) {
					g := oneRangeAt(t, time.Unix(1_000_000_020, 0), 2, ruleOf("l", tier, func(l *quota.Limit) { l.Ceiling, l.Durable = c, true }))
					k, j := key("l", "k"), &journal{}
					g.members[0] = g.member(1, j)
					back := func(n int64) { g.members[0].Refund(g.clock, k.LimitName, k.Key, n) }
					if n := g.drain(0, k, most); n != most {
						t.Fatalf("%d passed", n)
					}
					g.settle()
					end := g.now.Add(g.take(0, k, 1).RetryAfter)
					g.pass(end.Sub(g.now) - 60*time.Millisecond)
					g.write()
					if tc.lost {
						g.silent = g.members[0]
					}
					back(most)
					g.sync()
					if tc.elected {
						g.silent = g.members[0]
						g.elect(slices.Collect(maps.Values(g.logged)))
					}
					g.pass(end.Sub(g.now) + 10*time.Millisecond)
					passed := int64(0)
					for range 20 { // a new leader first waits for members that it has not heard
						passed += int64(g.drain(1, k, most))
						g.pass(300 * time.Millisecond)
					}
					if passed != most {
						t.Fatalf("%d passed elsewhere in the next window, want all", passed)
					}
					if tc.dies {
						g.members[0] = g.member(2, nil)
						g.members[0].Recovered(j.list)
						g.ledger.MemberGone(g.now, "m0", 2)
					}
					g.silent = nil
					g.settle()
					back(tc.more)
					g.settle()
					if got := g.level(k); got != quota.FromTokens(tc.more) {
						t.Errorf("level %d of the next window, which is used up; want the %d tokens given back in it", got, tc.more)
					}
					if more := g.drain(0, k, 30) + g.drain(1, k, 30); c == quota.Hard && int64(more) > tc.more {
						t.Errorf("%d more passed, want at most %d", more, tc.more)
					}
				})
			}
		}
	}
}

// TestRefundOfUntoldWindow checks that a member without a grant for a key refunds into the window
// that it takes for the current one: a report that arrives in the next window adds nothing there.
func TestRefundOfUntoldWindow(t *testing.T) {
	for late, want := range map[time.Duration]quota.Units{0: 4 * tokens, 2 * time.Second: 0} {
		g := oneRangeAt(t, time.Unix(1_000_000_078, 0), 2, ruleOf("l", quota.Window(quota.FixedWindow, 10, time.Minute), hard))
		k := key("l", "k")
		if n := g.drain(1, k, 10); n != 10 {
			t.Fatalf("%d passed", n)
		}
		g.members[0].Refund(g.clock, k.LimitName, k.Key, 4)
		said := g.members[0].Collect(g.now)
		g.silent = g.members[0]
		g.pass(late)
		g.drain(1, k, 10)
		g.silent = nil
		for _, r := range said {
			if _, err := g.ledger.Report(g.now, r); err != nil {
				t.Fatal(err)
			}
		}
		g.settle()
		if got := g.level(k); got != want {
			t.Errorf("%v late: level %d, want %d", late, got, want)
		}
	}
}

// TestLateRefundSlides checks that a refund before the end of a sliding window that is heard in the
// next one does not return a second time, beside what slides back from the old window anyway.
func TestLateRefundSlides(t *testing.T) {
	const most = 10
	g := oneRangeAt(t, time.Unix(1_000_000_020, 0), 2, ruleOf("l", quota.Window(quota.SlidingWindow, most, time.Minute), hard))
	k := key("l", "k")
	if n := g.drain(0, k, most); n != most {
		t.Fatalf("%d passed", n)
	}
	g.settle()
	g.silent = g.members[0]
	g.members[0].Refund(g.clock, k.LimitName, k.Key, most)
	end := g.now.Add(time.Minute - g.now.Sub(0)%time.Minute)
	g.pass(end.Sub(g.now) + time.Minute/2)
	passed := 0
	for end = end.Add(time.Minute); g.now < end.Add(-time.Second); g.pass(300 * time.Millisecond) {
		passed += g.drain(1, k, 30)
		g.silent = nil
		passed += g.drain(0, k, 30)
	}
	if passed < most-1 || passed > most {
		t.Errorf("%d passed in the next window, want %d", passed, most)
	}
}

// TestLateReport checks that usage before the end of a window that is reported after it is not
// charged to the next window.
func TestLateReport(t *testing.T) {
	for _, tier := range []quota.Tier{
		quota.Window(quota.FixedWindow, 10, time.Minute),
		quota.Per(10, quota.Calendar{Unit: quota.Minute}),
		quota.Window(quota.PeriodicRefill, 10, time.Minute),
	} {
		for _, after := range []int{0, 3} { // used in the new window, in the same report
			g := oneRangeAt(t, time.Unix(1_000_000_020, 0), 2, ruleOf("l", tier))
			k := key("l", "k")
			g.take(0, k, 1)
			g.pass(500 * time.Millisecond)
			end := g.now.Add(g.take(0, k, 0).ResetAfter)
			g.pass(end.Sub(g.now) - 15*time.Millisecond)
			g.cut = true
			for range 6 {
				if d := g.checkNow(0, k, 1); !d.Allowed {
					t.Fatalf("6 of 9: %v", d.Why)
				}
			}
			g.now = end.Add(time.Millisecond)
			for range after {
				g.checkNow(0, k, 1)
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

// TestResetSlides checks that a key of a sliding window that was reset is like a new one: the use of the previous window
// returns nothing more. It used to return in addition to the full count, so a window admitted nearly twice its count.
func TestResetSlides(t *testing.T) {
	for c, want := range map[quota.Ceiling]int{quota.Soft: 11, quota.Hard: 10} { // soft counts a member's first report as use before the reset
		g := newOneRange(t, 1, ruleOf("l", quota.Window(quota.SlidingWindow, 10, 10*time.Second), func(l *quota.Limit) { l.Ceiling = c }))
		k := key("l", "k")
		if n := g.drain(0, k, 20); n != 10 {
			t.Fatalf("%v: %d of 10 passed", c, n)
		}
		g.settle()
		g.pass(11 * time.Second)
		g.ledger.Reset(g.now, k)
		g.settle()
		n := g.drain(0, k, 20)
		g.settle()
		for range 5 { // up to the end of that window
			g.pass(time.Second)
			n += g.drain(0, k, 20)
		}
		if n != want {
			t.Errorf("%v: %d passed in the window of the reset, want %d", c, n, want)
		}
	}
}
