package planner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// TestHeadroomRows checks that the fullest limit comes first, each measured according to its rule.
func TestHeadroomRows(t *testing.T) {
	p := apitest.NewPast(t)
	p.With(t, "web/login 10/s 20", "web/keys 10/s 20", "web/window 100/60s 100 fixed", "web/shadow 10/s 20 shadow")
	for i := range int64(100) {
		p.Ask("web/login", "*", time.Duration(100-i)*time.Second, 8)
		p.Ask("web/shadow", "*", time.Duration(100-i)*time.Second, 15)
		p.Ask("web/keys", "a", time.Duration(100-i)*time.Second, 4)
		p.Ask("web/keys", "b", time.Duration(100-i)*time.Second, 1)
		p.Ask("web/window", "*", time.Duration(100-i)*time.Second, 1)
		p.Ask("web/gone", "*", time.Duration(100-i)*time.Second, 1)
	}
	res, err := newPlannerOf(p).Headroom(t.Context(), &quoratev1.HeadroomRequest{From: ago(100 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, h := range res.Limits {
		got += fmt.Sprintf("%s %.2f %.2f %s\n", h.Limit, h.Saturation, h.RefusedPart, h.Statement)
	}
	want := `shadow 1.50 0.33 in 99 of 100 seconds, demand was at most 150% of the refill; in the highest, 150%; 33.3% would have been refused, but passed: the limit is not enforced
login 0.80 0.00 in 99 of 100 seconds, demand was at most 80% of the refill; in the highest, 80%; 0% was refused
window 0.60 0.00 demand in its fullest window was 60% of the limit, on average 60%; 0% was refused
keys 0.40 0.00 the busiest key "a" requested 40% of its limit; 0% was refused
gone 0.00 0.00 this limit was removed; 0% was refused
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestHeadroomPeaks checks limits that are idle for most of a day. A limit with many keys is as full as its
// fullest minute, and a window as its fullest window. A rule that spans more than a minute is as full as
// the demand of its whole span.
func TestHeadroomPeaks(t *testing.T) {
	p := apitest.NewPast(t)
	p.Admits = true
	p.With(t, "web/keys 10/s 20", "web/slow 1/60s 100", "web/window 100/60s 100 fixed", "web/daily 1000/86400s 1000 fixed")
	for i := range int64(60) {
		p.Ask("web/keys", "once", 10*hour-time.Duration(i)*time.Second, 8)
		p.Ask("web/slow", "once", 10*hour-time.Duration(i)*time.Second, 1)
		p.Ask("web/window", "*", 10*hour-time.Duration(i)*time.Second, 1)
	}
	for i := range 20 {
		p.Ask("web/keys", "often", time.Duration(20-i)*hour, 60)
		p.Ask("web/slow", "other", time.Duration(20-i)*hour, 1)
		p.Ask("web/window", "*", time.Duration(20-i)*hour, 30)
		p.Ask("web/daily", "a", time.Duration(20-i)*hour, 40)
		p.Ask("web/daily", "b", time.Duration(20-i)*hour, 1)
	}
	res, err := newPlannerOf(p).Headroom(t.Context(), &quoratev1.HeadroomRequest{From: ago(20 * hour)})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, h := range res.Limits {
		got += fmt.Sprintf("%s %.2f %s: %s\n", h.Limit, h.Saturation, h.BusiestKey, h.Statement)
	}
	want := `window 0.90 *: demand in its fullest window was 90% of the limit, on average 1%; 0% was refused
keys 0.80 once: key "once" requested 80% of its limit in the busiest minute; 0% was refused
daily 0.80 a: the busiest key "a" requested 80% of its limit; 0% was refused
slow 0.60 once: key "once" requested 60% of its limit in the busiest minute; 0% was refused
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestHeadroomIdle checks that a limit that is idle most of the time is as full as its busy seconds, and
// that the statement says how many there are.
func TestHeadroomIdle(t *testing.T) {
	for _, back := range []time.Duration{30 * time.Minute, 20 * hour} {
		p := apitest.NewPast(t)
		p.With(t, "web/login 10/s 20")
		for i := range int64(30) {
			p.Ask("web/login", "*", 10*time.Minute-time.Duration(i)*time.Second, 8)
		}
		res, err := newPlannerOf(p).Headroom(t.Context(), &quoratev1.HeadroomRequest{From: ago(back)})
		if err != nil {
			t.Fatal(err)
		}
		idle := 1 - 30/back.Seconds()
		if h := res.Limits[0]; h.Saturation != .8 || h.Headroom > .21 || h.IdlePart < idle-.001 || h.IdlePart > idle+.001 || !strings.HasPrefix(h.Statement, "in 99 of 100 busy seconds, demand was at most 80% of the refill; in the highest, 80%; idle 9") {
			t.Errorf("of %v: %v", back, h)
		}
	}
}

// TestHeadroomWindows checks that demand at the end of one window and at the beginning of the next does not
// add up for a fixed window, but does for a sliding one.
func TestHeadroomWindows(t *testing.T) {
	p := apitest.NewPast(t)
	p.Admits = true
	p.With(t, "web/fixed 100/60s 100 fixed", "web/sliding 100/60s 100 sliding")
	for _, limit := range []string{"web/fixed", "web/sliding"} {
		p.Ask(limit, "*", 65*time.Second, 90)
		p.Ask(limit, "*", 55*time.Second, 90)
	}
	for _, back := range []time.Duration{10 * time.Minute, 10 * hour} {
		res, err := newPlannerOf(p).Headroom(t.Context(), &quoratev1.HeadroomRequest{From: ago(back)})
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range res.Limits {
			want := .9
			if h.Limit == "sliding" && back < hour {
				want = 1.8
			}
			if h.Saturation != want {
				t.Errorf("%s of %v: %v", h.Limit, back, h)
			}
		}
	}
}

// TestHeadroomOfDays checks that a daily limit with refusals is reported as full even if no minute was busy.
func TestHeadroomOfDays(t *testing.T) {
	p := apitest.NewPast(t)
	p.With(t, "web/daily 500/86400s 500")
	for i := range 7 * 24 {
		tokens := int64(1)
		if i/24 == 3 {
			tokens = 45 // 24*45 = 1080 tokens that day
		}
		p.Ask("web/daily", "a", time.Duration(7*24-i)*hour, tokens)
		p.Ask("web/daily", "b", time.Duration(7*24-i)*hour, 1)
	}
	res, err := newPlannerOf(p).Headroom(t.Context(), &quoratev1.HeadroomRequest{From: ago(7 * 24 * hour)})
	if err != nil {
		t.Fatal(err)
	}
	if h := res.Limits[0]; h.RefusedPart == 0 || h.Saturation < 1 || h.BusiestKey != "a" || !strings.Contains(h.Statement, "in 24h0m0s") {
		t.Errorf("refused %.2f, %.2f full of %s: %s", h.RefusedPart, h.Saturation, h.BusiestKey, h.Statement)
	}
}

// TestHeadroomReadsFew checks that a limit costs few reads of its keys, however many of its periods refused something.
func TestHeadroomReadsFew(t *testing.T) {
	for _, c := range []struct {
		name      string
		tokens    int64 // demand of each key, doubled in every other hour
		reads     int
		statement string
	}{
		{"the first period is full", 45, 2, "in 1h0m0s"},
		{"no period is full", 20, 1 + maxPeriods, "or were refused without need"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := apitest.NewPast(t)
			p.With(t, "web/hourly 60/3600s 60 fixed")
			for i := range 50 {
				for _, key := range []string{"a", "b"} {
					p.Ask("web/hourly", key, time.Duration(100-2*i)*hour, c.tokens)
					p.Ask("web/hourly", key, time.Duration(100-2*i)*hour-30*time.Minute, c.tokens)
				}
			}
			res, err := newPlannerOf(p).Headroom(t.Context(), &quoratev1.HeadroomRequest{From: ago(100 * hour)})
			if err != nil {
				t.Fatal(err)
			}
			if h := res.Limits[0]; p.Lists != c.reads || !strings.Contains(h.Statement, c.statement) {
				t.Errorf("%d reads, want %d: %s", p.Lists, c.reads, h.Statement)
			}
		})
	}
}
