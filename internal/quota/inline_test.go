package quota

import (
	"strings"
	"testing"
	"time"
)

func TestInline(t *testing.T) {
	for _, c := range []struct {
		in   Inline
		name string // or part of the error
	}{
		{Inline{Rate: Rate{100, time.Minute}, Burst: 20}, "@inline.bucket.soft.100.60000000000.20"},
		{Inline{Kind: FixedWindow, Rate: Rate{5, time.Hour}, Burst: 5, Ceiling: Hard}, "@inline.fixed.hard.5.3600000000000.5"},
		{Inline{Kind: CalendarWindow, Calendar: Month, Rate: Rate{Tokens: 7}, Burst: 7}, "@inline.calendar.soft.7.month.7"},
		{Inline{Rate: Rate{1, time.Second}, Burst: 1, Decide: AtLeader}, "@inline.bucket.soft.1.1000000000.1.leader"},
		{Inline{Kind: CalendarWindow, Calendar: Day, Rate: Rate{Tokens: MaxTokens}, Burst: MaxTokens, Ceiling: Hard, Decide: AtLeader}, "@inline.calendar.hard.4398046511104.day.4398046511104.leader"},
		{Inline{Rate: Rate{0, time.Second}, Burst: 0}, "@inline.bucket.soft.0.1000000000.0"},
		{Inline{Rate: Rate{1, 0}, Burst: 1}, "rate: 1 per 0s"},
		{Inline{Rate: Rate{-1, 1}, Burst: 1}, "rate: -1"},
		{Inline{Rate: Rate{1, 1}, Burst: MaxTokens + 1}, "burst:"},
		{Inline{Kind: FixedWindow, Rate: Rate{5, time.Hour}, Burst: 6}, "must be the same"},
		{Inline{Kind: CalendarWindow, Rate: Rate{Tokens: 7}, Burst: 7}, "calendar: no unit"},
		{Inline{Kind: Concurrency, Burst: 7}, "unknown kind"},
	} {
		n, err := c.in.Name("ns")
		if err != nil {
			if !strings.Contains(err.Error(), c.name) {
				t.Errorf("%+v: %v; want %s", c.in, err, c.name)
			}
			continue
		}
		if n.Limit != c.name || !n.IsInline() || len(n.Limit) > MaxNameLen {
			t.Errorf("%+v is %v; want %s", c.in, n, c.name)
		}
		var none *Limits
		l, ok := none.Find(n)
		if !ok || l.Kind != c.in.Kind || l.Burst != c.in.Burst || l.Ceiling != c.in.Ceiling || l.Calendar.Unit != c.in.Calendar || l.Decide != c.in.Decide {
			t.Errorf("%v finds %+v", n, l)
		}
		if ch := none.Charges(n); len(ch) != 1 || ch[0].Limit.LimitName != n {
			t.Errorf("%v charges %+v", n, ch)
		}
		if l, key := none.Resolve(n, "k"); l == nil || key != "k" {
			t.Errorf("%v resolves to %v, %s", n, l, key)
		}
	}
}

func FuzzInline(f *testing.F) {
	for _, s := range []string{"@inline.bucket.soft.100.60000000000.20", "@inline.calendar.hard.7.month.7", "@inline.fixed.soft.+5.1.5", "@inline.bucket.soft.1.1.1.leader", "@inline.", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n := LimitName{"ns", s}
		l, err := n.Inline()
		if err != nil {
			return
		}
		if err := first(l); err != nil {
			t.Errorf("%q is %+v: %v", s, l, err)
		}
		if len(s) > MaxNameLen {
			t.Errorf("%q: %d bytes", s, len(s))
		}
	})
}

func first(l *Limit) (err error) {
	m := *l
	m.LimitName.Limit = "plain"
	return m.Validate()
}
