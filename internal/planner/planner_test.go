package planner

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

func said(all []string, want string) bool { return strings.Contains(strings.Join(all, "\n"), want) }

// TestWhatIf checks another rule on the same demand, and what the answer says about itself.
func TestWhatIf(t *testing.T) {
	p := apitest.NewPast(t)
	p.With(t, "web/login 10/s 20", "web/window 100/60s 100 fixed", "web/flight 1/s 5 inflight", "web/shadow 10/s 10 shadow")
	for i := range int64(120) {
		p.Ask("web/login", "*", time.Duration(120-i)*time.Second, 10+10*(i%2))
		p.Ask("web/window", "*", time.Duration(120-i)*time.Second, 3)
		p.Ask("web/shadow", "*", time.Duration(120-i)*time.Second, 15)
	}
	s := newPlannerOf(p)
	ask := func(limit string, change func(*quoratev1.WhatIfRequest)) (*quoratev1.WhatIfResponse, error) {
		req := &quoratev1.WhatIfRequest{Namespace: "web", Limit: limit, From: ago(2 * time.Minute)}
		if change != nil {
			change(req)
		}
		return s.WhatIf(t.Context(), req)
	}
	res, err := ask("login", func(r *quoratev1.WhatIfRequest) { b := int64(40); r.Rate, r.Burst = "20/s", &b })
	if err != nil || res.Outcome.RefusedAtMost != 0 || !res.Outcome.Exact || res.Outcome.Rule.Rate != "20/s" || res.Now.RefusedAtLeast < 500 || res.RefusedThen != 600 ||
		res.Basis != quoratev1.Basis_BASIS_SECONDS || len(res.Points) != 120 || !said(res.Statements, "exact: 0 of 1800") {
		t.Fatalf("20/s: %v, %v", res, err)
	}
	sum := int64(0)
	for _, p := range res.Points {
		sum += p.Attempted
	}
	if sum != 1800 {
		t.Errorf("the course has %d of 1800", sum)
	}
	res, err = ask("login", func(r *quoratev1.WhatIfRequest) { b := int64(5); r.Burst = &b })
	if err != nil || res.Outcome.RefusedAtLeast <= res.Now.RefusedAtLeast || !said(res.Statements, "between ") {
		t.Errorf("burst 5: %v, %v", res, err)
	}
	res, err = ask("window", func(r *quoratev1.WhatIfRequest) { r.Rate = "120/60s" })
	if err != nil || !res.Outcome.Exact || res.Outcome.RefusedAtMost != 120 || res.Now.RefusedAtMost != 160 {
		t.Errorf("a window is exact: %v, %v", res, err)
	}
	res, err = ask("login", func(r *quoratev1.WhatIfRequest) { r.Kind, r.Rate = quoratev1.Kind_KIND_FIXED, "900/1m" })
	if err != nil || !res.Outcome.Exact || res.Outcome.RefusedAtMost != 0 || res.Outcome.Rule.Kind != quoratev1.Kind_KIND_FIXED {
		t.Errorf("a window instead: %v, %v", res, err)
	}
	if res, err = ask("shadow", nil); err != nil || !said(res.Statements, "in shadow") {
		t.Errorf("shadow: %v, %v", res, err)
	}
	for want, change := range map[string]func(*quoratev1.WhatIfRequest){
		"rate":                             func(r *quoratev1.WhatIfRequest) { r.Rate = "fast" },
		"kind: is calendar":                func(r *quoratev1.WhatIfRequest) { r.Kind = quoratev1.Kind_KIND_CALENDAR },
		"limit: web/flight":                func(r *quoratev1.WhatIfRequest) { r.Limit = "flight" },
		"limit: unknown limit web/nothing": func(r *quoratev1.WhatIfRequest) { r.Limit = "nothing" },
		"burst: is 7, and the":             func(r *quoratev1.WhatIfRequest) { b := int64(7); r.Limit, r.Rate, r.Burst = "window", "9/60s", &b },
		"makes an invalid rule":            func(r *quoratev1.WhatIfRequest) { b := int64(-7); r.Burst = &b },
	} {
		if _, err := ask("login", change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	p.Missing[apitest.History0(apitest.Noon.Add(-time.Minute))] = "n2"
	if res, err = ask("login", nil); err != nil || !said(res.Statements, "missing n2 from 2026-11-22 11:59:00") {
		t.Errorf("missing: %v, %v", res.GetStatements(), err)
	}
}

// TestWhatIfByMinutes checks that the answer on older demand says that only minutes are known.
func TestWhatIfByMinutes(t *testing.T) {
	p := apitest.NewPast(t)
	p.With(t, "web/login 10/s 20", "web/window 100/60s 100 fixed")
	for i := range int64(600) {
		p.Ask("web/login", "*", 5*hour-time.Duration(i)*time.Second, 10+10*(i%2))
		p.Ask("web/window", "*", 5*hour-time.Duration(i)*time.Second, 3)
	}
	req := &quoratev1.WhatIfRequest{Namespace: "web", Limit: "login", From: ago(6 * hour), To: ago(4 * hour)}
	res, err := newPlannerOf(p).WhatIf(t.Context(), req)
	if err != nil || res.Basis != quoratev1.Basis_BASIS_MINUTES || !res.Outcome.Estimate || !said(res.Statements, "an estimate") || !said(res.Statements, "every minute and its peak second") {
		t.Fatalf("%v, %v", res, err)
	}
	if o := res.Outcome; o.RefusedAtLeast > 3000 || o.RefusedAtMost < 2900 { // a meter would have refused 2980
		t.Errorf("%v", o)
	}
	req.Limit = "window"
	if res, err = newPlannerOf(p).WhatIf(t.Context(), req); err != nil || !res.Outcome.Exact || res.Outcome.RefusedAtMost != 800 {
		t.Errorf("windows of whole minutes stay exact: %v, %v", res, err)
	}
	req = &quoratev1.WhatIfRequest{Namespace: "web", Limit: "login", From: ago(100 * day), To: ago(90 * day)}
	if res, err = newPlannerOf(p).WhatIf(t.Context(), req); err != nil || res.Basis != quoratev1.Basis_BASIS_HOURS || !said(res.Statements, "no recorded demand") {
		t.Errorf("%v, %v", res, err)
	}
}

// TestWhatIfByKey checks that for a limit with many keys the real refusals lie within the bounds, for the
// active rule and for others, and that the refusals of the active rule narrow the bounds unless the
// rule has changed.
func TestWhatIfByKey(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for seconds in one goroutine; left out by -short")
	}
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 7))
		p := apitest.NewPast(t)
		p.With(t, "web/login 2/s 30", "web/window 100/60s 100 fixed")
		limit := []string{"login", "window"}[seed%2]
		for i := range int64(600) {
			for k := range 8 {
				if n := rng.Int64N(1 + int64(8-k)); n > 0 {
					p.Ask("web/"+limit, fmt.Sprint("k", k), 10*time.Minute-time.Duration(i)*time.Second, n)
				}
			}
		}
		for k := range 300 { // more keys than are replayed individually
			p.Ask("web/"+limit, fmt.Sprint("small", k), time.Duration(1+rng.IntN(599))*time.Second, 1)
		}
		slices.SortStableFunc(p.All, func(a, b apitest.Asked) int { return cmp.Compare(a.At, b.At) })
		name := quota.LimitName{Namespace: "web", Limit: limit}
		now := newPlannerOf(p).ruleOf(name).First()
		refused := refusedByKey(p, name, now, true)
		width := int64(0)
		for _, versions := range [][]quota.Version{nil, {{Number: 7}}} {
			p.Versions = versions // without versions it is not known since when the rule is active
			for _, rate := range []string{"", "4/s", "90/60s"} {
				req := &quoratev1.WhatIfRequest{Namespace: "web", Limit: limit, From: ago(10 * time.Minute), Rate: rate}
				res, err := newPlannerOf(p).WhatIf(t.Context(), req)
				if err != nil || res.Basis != quoratev1.Basis_BASIS_KEYS || len(res.Points) != 200 || res.Points[9].Attempted == 0 || res.Points[9].RefusedAtMost != 0 || res.RefusedThen != refused {
					t.Fatalf("%v, %v", res, err)
				}
				rule := newPlannerOf(p).ruleOf(name)
				if rule, err = changedRule(rule, req); err != nil {
					t.Fatal(err)
				}
				truth := refusedByKey(p, name, rule.First(), false)
				if o := res.Outcome; truth < o.RefusedAtLeast || truth > o.RefusedAtMost || o.RefusedLikely < o.RefusedAtLeast || o.RefusedLikely > o.RefusedAtMost {
					t.Errorf("seed %d, %s %s: %d refused, said %d to %d of %d", seed, limit, rate, truth, o.RefusedAtLeast, o.RefusedAtMost, o.Attempted)
				}
				if n := res.Now; rate == "" && versions != nil && (n.RefusedAtMost-n.RefusedAtLeast > width || n.RefusedAtMost > refused+1) {
					t.Errorf("seed %d, %s: %d refused, said %d to %d", seed, limit, refused, n.RefusedAtLeast, n.RefusedAtMost)
				} else if rate == "" {
					width = n.RefusedAtMost - n.RefusedAtLeast
				}
				if knows := said(res.Statements, "calibrated with the"); knows != (versions != nil) {
					t.Errorf("%q", res.Statements)
				}
			}
		}
		p.Overrides = []quota.Override{{Key: quota.Key{LimitName: name, Key: "k1"}}}
		if res, err := newPlannerOf(p).WhatIf(t.Context(), &quoratev1.WhatIfRequest{Namespace: "web", Limit: limit, From: ago(10 * time.Minute)}); err != nil || !said(res.Statements, "or other rules decide too") {
			t.Errorf("with an override: %q, %v", res.GetStatements(), err)
		}
	}
}

// TestWhatIfByHours checks that the real refusals also lie within the bounds for many keys in older times,
// of which lists by the hour are kept.
func TestWhatIfByHours(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	p := apitest.NewPast(t)
	p.With(t, "web/login 2/s 30")
	for m := range int64(240) {
		for k := range 6 {
			p.Ask("web/login", fmt.Sprint("k", k), 7*hour-time.Duration(m)*time.Minute, rng.Int64N(90))
		}
	}
	name := quota.LimitName{Namespace: "web", Limit: "login"}
	refusedByKey(p, name, newPlannerOf(p).ruleOf(name).First(), true)
	for _, versions := range [][]quota.Version{nil, {{Number: 7}}} {
		p.Versions = versions
		for _, rate := range []string{"1/s", "3/s"} {
			req := &quoratev1.WhatIfRequest{Namespace: "web", Limit: "login", From: ago(8 * hour), To: ago(2 * hour), Rate: rate}
			res, err := newPlannerOf(p).WhatIf(t.Context(), req)
			rule, g := changedRule(newPlannerOf(p).ruleOf(name), req)
			if err != nil || g != nil || res.Basis != quoratev1.Basis_BASIS_KEYS {
				t.Fatalf("%v, %v, %v", res, err, g)
			}
			truth := refusedByKey(p, name, rule.First(), false)
			if o := res.Outcome; truth < o.RefusedAtLeast || truth > o.RefusedAtMost || o.RefusedAtMost == o.Attempted && versions != nil {
				t.Errorf("%s, since %v: %d refused, said %d to %d of %d", rate, versions, truth, o.RefusedAtLeast, o.RefusedAtMost, o.Attempted)
			}
			if !said(res.Statements, " of 1h, and the demand of all keys") {
				t.Errorf("%q", res.Statements)
			}
		}
	}
}

// refusedByKey returns what a rule refuses of demand whose tokens come one by one, evenly over their
// seconds. With record set, as for the active rule, it also records the outcome.
func refusedByKey(p *apitest.Past, limit quota.LimitName, rule quota.Tier, record bool) (refused int64) {
	meters := map[string]*limiter.Meter{}
	for j := range p.All {
		a := &p.All[j]
		if a.Limit != limit {
			continue
		}
		at := quota.Time(a.At) * quota.Time(time.Second)
		m := meters[a.Key]
		if m == nil {
			full := limiter.NewMeter(&rule, at)
			m = &full
			meters[a.Key] = m
		}
		passed := int64(0)
		for i := range a.Attempted {
			m.Advance(at.Add(time.Duration(i)*time.Second/time.Duration(a.Attempted)), &rule)
			if m.Level() < quota.Token {
				refused++
				continue
			}
			m.Add(-quota.Token)
			passed++
		}
		if record {
			a.Admitted = passed
		}
	}
	return refused
}

// TestSuggestByKey checks that for many keys the suggested rate follows the estimate, and that the answer
// also states how much may be refused at most.
func TestSuggestByKey(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	p := apitest.NewPast(t)
	p.With(t, "web/login 10/s 20")
	p.Versions = []quota.Version{{Number: 7}}
	for i := range int64(600) {
		for k := range 10 {
			p.Ask("web/login", fmt.Sprint("k", k), 10*time.Minute-time.Duration(i)*time.Second, rng.Int64N(23))
		}
	}
	name := quota.LimitName{Namespace: "web", Limit: "login"}
	refusedByKey(p, name, newPlannerOf(p).ruleOf(name).First(), true)
	res, err := newPlannerOf(p).Suggest(t.Context(), &quoratev1.SuggestRequest{Namespace: "web", Limit: "login", From: ago(10 * time.Minute), RefusedPpm: 20_000})
	if err != nil || !said(res.Statements, "an estimate of at most 2%; at most ") {
		t.Fatalf("%v, %v", res, err)
	}
	next, err := quota.ParseRate(res.Outcome.Rule.Rate)
	if err != nil {
		t.Fatal(err)
	}
	rule := quota.Tier{Kind: quota.TokenBucket, Rate: next, Burst: res.Outcome.Rule.Burst}
	truth := float64(refusedByKey(p, name, rule, false)) / float64(res.Outcome.Attempted)
	if truth > .04 || next.Tokens < 10 || next.Tokens > 13 || res.Outcome.RefusedLikely > res.Outcome.Attempted/50 {
		t.Errorf("%v refuses %.1f%%; it was asked for 2%%: %v", rule, 100*truth, res.Outcome)
	}
}

// TestSuggestRule checks that the suggested rule refuses no more than the requested part.
func TestSuggestRule(t *testing.T) {
	p := apitest.NewPast(t)
	p.With(t, "web/login 10/s 20")
	for i := range int64(300) {
		p.Ask("web/login", "*", time.Duration(300-i)*time.Second, 30+30*(i%10/9))
	}
	s := newPlannerOf(p)
	res, err := s.Suggest(t.Context(), &quoratev1.SuggestRequest{Namespace: "web", Limit: "login", From: ago(10 * time.Minute), RefusedPpm: 10_000})
	if err != nil || float64(res.Outcome.RefusedAtMost) > .01*float64(res.Outcome.Attempted)+1 || res.Outcome.Rule.Rate == "10/s" || res.Now.RefusedAtLeast == 0 {
		t.Fatalf("%v, %v", res, err)
	}
	for want, req := range map[string]*quoratev1.SuggestRequest{
		"refused_ppm: is 1000000": {Namespace: "web", Limit: "login", RefusedPpm: 1_000_000},
		"web/login had no demand": {Namespace: "web", Limit: "login", From: ago(3 * day), To: ago(2 * day)},
	} {
		if _, err := s.Suggest(t.Context(), req); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// TestForecastDays checks that growth is found, and that the answer says what there is too little data for.
func TestForecastDays(t *testing.T) {
	p := apitest.NewPast(t)
	p.With(t, "web/login 100/s 200", "web/keys 5/s 5", "web/young 5/s 5")
	midnight := apitest.Noon.Truncate(day)
	for d := range 30 {
		for h := range 24 {
			at := apitest.Noon.Sub(midnight.Add(-time.Duration(30-d)*day + time.Duration(h)*hour))
			p.All = append(p.All, apitest.Asked{At: history.Second(apitest.Noon.Add(-at).Unix()), Limit: quota.LimitName{Namespace: "web", Limit: "login"}, Key: "*", Attempted: int64(40 + d), Admitted: int64(40 + d)})
			if d > 26 {
				p.Ask("web/young", "*", at, 3)
			}
			p.Ask("web/keys", "a", at, 3)
			p.Ask("web/keys", "b", at, 3)
		}
	}
	store := hourly{p}
	s := newPlannerOf(store)
	s.clock = func() time.Time { return apitest.Noon }
	res, err := s.Forecast(t.Context(), &quoratev1.ForecastRequest{Namespace: "web", Limit: "login"})
	if err != nil || res.DaysUsed != 30 || res.GrowthPerDay < .9 || res.GrowthPerDay > 1.1 || res.DaysUntilFull == nil || *res.DaysUntilFull < 29 || *res.DaysUntilFull > 32 || !res.Weekdays || len(res.Days) != 120 {
		t.Fatalf("%v, %v", res.GetStatements(), err)
	}
	if !said(res.Statements, "expected to reach the refill of 100 tokens/s in ") {
		t.Errorf("%q", res.Statements)
	}
	if res, err = s.Forecast(t.Context(), &quoratev1.ForecastRequest{Namespace: "web", Limit: "keys"}); err != nil || res.DaysUntilFull != nil || !said(res.Statements, "their sum has no limit") {
		t.Errorf("%v, %v", res.GetStatements(), err)
	}
	if _, err = s.Forecast(t.Context(), &quoratev1.ForecastRequest{Namespace: "web", Limit: "young"}); err == nil || apierr.From(err).Reason != "NOT_NOW" || !strings.Contains(apierr.From(err).Detail, "the history of web/young has 3 days, and a forecast needs 7; possible in 4 days, on 2026-11-26") {
		t.Errorf("%v", err)
	}
	if _, err = s.Forecast(t.Context(), &quoratev1.ForecastRequest{Namespace: "web", Limit: "login", Days: 3}); err == nil || apierr.From(err).Field != "days" {
		t.Errorf("%v", err)
	}
}

// hourly is a past in which only hours with demand are known.
type hourly struct{ *apitest.Past }

func (p hourly) History(_ context.Context, q history.Query) (history.Answer, error) {
	out := history.Answer{AsOf: p.AsOf, RangesCovered: 1, RangesTotal: 1}
	for _, a := range p.All {
		if a.Limit == q.Limit && a.At >= q.From && a.At < q.End {
			u := quota.FromTokens(a.Attempted)
			out.Points = append(out.Points, history.Point{Start: a.At, Seconds: 3600, Counts: history.Counts{Attempted: u, Admitted: u}, P99: u, Mean: u, Peak: u, Complete: true})
		}
	}
	return out, nil
}

// TestNoisyKeys checks that a key far above the median is named, with what it cost the others.
func TestNoisyKeys(t *testing.T) {
	p := apitest.NewPast(t)
	p.With(t, "web/all 100/s 100", "web/login 10/s 20 parent=all", "web/own 10/s 20")
	for i := range 9 {
		for _, limit := range []string{"web/login", "web/own"} {
			p.Ask(limit, fmt.Sprint("k", i), time.Minute, 12)
		}
	}
	p.Ask("web/login", "loud", time.Minute, 900)
	p.Ask("web/own", "loud", time.Minute, 900)
	s := newPlannerOf(p)
	res, err := s.Noisy(t.Context(), &quoratev1.NoisyRequest{Namespace: "web", Limit: "login"})
	if err != nil || len(res.Keys) != 1 || res.Keys[0].Use.Key != "loud" || res.Median != 12 || res.Keys[0].TimesMedian != 75 || !strings.Contains(res.Keys[0].Statement, "of all, which all share, while the others had 18 tokens refused") {
		t.Errorf("%v, %v", res, err)
	}
	if res, err = s.Noisy(t.Context(), &quoratev1.NoisyRequest{Namespace: "web", Limit: "own"}); err != nil || !strings.Contains(res.Keys[0].Statement, "took nothing from other keys") {
		t.Errorf("%v, %v", res, err)
	}
	if res, err = s.Noisy(t.Context(), &quoratev1.NoisyRequest{Namespace: "web", Limit: "own", Times: 100}); err != nil || len(res.Keys) != 0 || !said(res.Statements, "no key had 100 times") {
		t.Errorf("%v, %v", res, err)
	}
	if _, err = s.Noisy(t.Context(), &quoratev1.NoisyRequest{Namespace: "web", Limit: "own", Times: 1}); err == nil || apierr.From(err).Field != "times" {
		t.Errorf("%v", err)
	}
}

// TestNoisyOfMuch checks demand that overflows when multiplied by a thousand, as with keys that count bytes.
func TestNoisyOfMuch(t *testing.T) {
	p := apitest.NewPast(t)
	p.With(t, "web/bytes 1000/s 1000")
	for i := range 3 {
		p.Ask("web/bytes", fmt.Sprint("k", i), time.Minute, 10_000_000_000)
	}
	if res, err := newPlannerOf(p).Noisy(t.Context(), &quoratev1.NoisyRequest{Namespace: "web", Limit: "bytes", Times: 1000}); err != nil || len(res.Keys) != 0 {
		t.Errorf("keys that are alike are noisy: %v, %v", res, err)
	}
}

// TestWhatIfWithHoles checks that a course has no more points than allowed, however large the gaps between
// known points are.
func TestWhatIfWithHoles(t *testing.T) {
	p := apitest.NewPast(t)
	p.With(t, "web/login 10/s 20")
	p.Ask("web/login", "*", 500*day, 20)
	p.Ask("web/login", "*", 2*hour, 20)
	s := newPlannerOf(hourly{p})
	s.clock = func() time.Time { return apitest.Noon }
	res, err := s.WhatIf(t.Context(), &quoratev1.WhatIfRequest{Namespace: "web", Limit: "login", From: ago(501 * day)})
	if err != nil || len(res.Points) == 0 || len(res.Points) > maxWhatIf {
		t.Fatalf("%d points, %v", len(res.Points), err)
	}
	if first, last := res.Points[0], res.Points[len(res.Points)-1]; first.Attempted != 20 || last.Attempted != 20 {
		t.Errorf("%v, %v", first, last)
	}
}

// TestSuggestForWhoHasGone checks that the search for a rate ends when the caller has gone.
func TestSuggestForWhoHasGone(t *testing.T) {
	p := apitest.NewPast(t)
	p.With(t, "web/login 10/s 20")
	p.Ask("web/login", "*", time.Minute, 100)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if res, err := newPlannerOf(p).Suggest(ctx, &quoratev1.SuggestRequest{Namespace: "web", Limit: "login"}); err == nil || apierr.From(err).Reason != "CANCELED" {
		t.Errorf("%v, %v; want that it was canceled", res, err)
	}
}

// forgetful is a past that keeps minutes for a day.
type forgetful struct{ *apitest.Past }

func (p forgetful) History(ctx context.Context, q history.Query) (history.Answer, error) {
	if oldest := p.AsOf - 86400; q.Step == 60 && q.From < oldest {
		q.From = min(oldest, q.End)
	}
	return p.Past.History(ctx, q)
}

// TestWhatIfWhereMinutesAreGone checks that hours are used if minutes are kept for less than the requested time.
func TestWhatIfWhereMinutesAreGone(t *testing.T) {
	p := apitest.NewPast(t)
	p.With(t, "web/login 10/s 20", "web/keys 10/s 20")
	for _, ago := range []time.Duration{60 * hour, 12 * hour} {
		p.Ask("web/login", "*", ago, 100)
		p.Ask("web/keys", "a", ago, 50)
		p.Ask("web/keys", "b", ago, 50)
	}
	s := newPlannerOf(forgetful{p})
	s.clock = func() time.Time { return apitest.Noon }
	for _, limit := range []string{"login", "keys"} {
		for end, want := range map[time.Duration]int64{0: 200, 48 * hour: 100} {
			res, err := s.WhatIf(t.Context(), &quoratev1.WhatIfRequest{Namespace: "web", Limit: limit, From: ago(72 * hour), To: ago(end), Rate: "20/s"})
			if err != nil || res.Outcome.Attempted != want || res.Coverage.SecondsKnown != int64((72*hour-end)/time.Second) {
				t.Errorf("%s until %v ago: %v, %v; want %d", limit, end, res, err, want)
			}
		}
		res, err := s.WhatIf(t.Context(), &quoratev1.WhatIfRequest{Namespace: "web", Limit: limit, From: ago(20 * hour), Rate: "20/s"})
		if err != nil || res.Outcome.Attempted != 100 || limit == "login" && res.Basis != quoratev1.Basis_BASIS_MINUTES {
			t.Errorf("%s of what minutes are kept of: %v, %v", limit, res, err)
		}
	}
}

// TestWhatIfOfSlowBuckets checks a bucket that takes days to refill. What it admitted more than a day before
// must not count as refused for a key that begins with a full bucket.
func TestWhatIfOfSlowBuckets(t *testing.T) {
	p := apitest.NewPast(t)
	p.With(t, "web/slow 1/60s 10000")
	p.Versions = []quota.Version{{Number: 7}}
	name := quota.LimitName{Namespace: "web", Limit: "slow"}
	ask := func(ago time.Duration, attempted, admitted int64) {
		for k := range 5 {
			p.All = append(p.All, apitest.Asked{At: history.Second(apitest.Noon.Add(-ago).Unix()), Limit: name, Key: fmt.Sprint("k", k), Attempted: attempted, Admitted: admitted})
		}
	}
	ask(25*hour, 10_000, 10_000)
	for i := range 10 {
		ask(10*time.Minute-time.Duration(i)*time.Minute, 400, 150) // 1500 had been refilled
	}
	res, err := newPlannerOf(p).WhatIf(t.Context(), &quoratev1.WhatIfRequest{Namespace: "web", Limit: "slow", From: ago(10 * time.Minute), Rate: "1/60s"})
	if err != nil || res.Outcome.Attempted != 20_000 || res.Outcome.RefusedAtLeast != 0 {
		t.Errorf("%v, %v; want that nothing may have been refused", res, err)
	}
}
