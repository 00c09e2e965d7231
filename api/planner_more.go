package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/history"
	planning "github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds of forecasts and of noisy keys.
const (
	usualDays  = 56
	maxDays    = 730
	usualAhead = 90
	maxAhead   = 365
	dayHours   = 12 // hours that have to be known of a day, for it to count

	usualTimes = 10 // the median
	maxTimes   = 1000
)

func (s *service) forecast(ctx context.Context, req *quoratev1.ForecastRequest) (*quoratev1.ForecastResponse, *fault) {
	name, f := s.pastLimit(req)
	if f != nil {
		return nil, f
	}
	days, f := mostOf("days", req.Days, maxDays, usualDays)
	if f == nil && days < planning.MinDays {
		f = badField("days", "%d; must be 7 to %d, or 0 for %d", days, maxDays, usualDays)
	}
	if f != nil {
		return nil, f
	}
	ahead, f := mostOf("ahead", req.Ahead, maxAhead, usualAhead)
	if f != nil {
		return nil, f
	}
	today := s.clock().UTC().Truncate(day)
	t := stretch{history.Second(today.Add(-time.Duration(days) * day).Unix()), history.Second(today.Unix())}
	a, err := s.past.History(ctx, history.Query{Limit: name, From: t.from, End: t.end, Step: 3600})
	if err != nil {
		return nil, fromError(err)
	}
	key, many, f := s.busiest(ctx, name, t)
	if f != nil {
		return nil, f
	}
	l := s.ruleOf(name)
	out := &quoratev1.ForecastResponse{Coverage: coverage(t, &a), Refill: refill(l)}
	whole := many || l == nil || slow(l)
	out.Measure = "the 99th percentile of the demand of a second, in the busiest hour of a day"
	if whole {
		out.Measure = "the mean demand of a second in the busiest hour of a day, all keys together"
	}
	return s.fit(out, byDay(a.Points, t.from, days, whole), ahead, name, many, &key)
}

// byDay is one number of each day; days of which too little is known are NaN.
func byDay(points []history.Point, from history.Second, days int, mean bool) []float64 {
	out, hours := make([]float64, days), make([]int, days)
	for i := range points {
		p := &points[i]
		d := int((p.Start - from) / history.Second(day/time.Second))
		if d < 0 || d >= days {
			continue
		}
		v := inTokens(p.P99)
		if mean {
			v = inTokens(p.Mean)
		}
		out[d] = max(out[d], v)
		hours[d] += max(1, p.Seconds/3600)
	}
	for d := range out {
		if hours[d] < dayHours {
			out[d] = math.NaN()
		}
	}
	return out
}

// fit forecasts days to come.
func (s *service) fit(out *quoratev1.ForecastResponse, days []float64, ahead int, name quota.LimitName, many bool, key *history.KeyTotal) (*quoratev1.ForecastResponse, *fault) {
	first := 0 // the first day with demand: what came before it is no gap, and no trend
	for first < len(days) && (math.IsNaN(days[first]) || days[first] == 0) {
		first++
	}
	days = days[first:]
	fc, err := planning.Fit(days)
	if errors.Is(err, planning.ErrTooFewDays) {
		missing := planning.MinDays - fc.Days
		return nil, notNow("there are %d days of history of %v, and a forecast needs %d; ask again in %d days, on %s",
			fc.Days, name, planning.MinDays, missing, s.clock().UTC().Add(time.Duration(missing)*day).Format(time.DateOnly))
	}
	if err != nil {
		return nil, fromError(err)
	}
	out.DaysUsed, out.GrowthPerDay, out.Weekdays = int32(fc.Days), fc.Slope, fc.Days >= 21
	begin := s.clock().UTC().Truncate(day).Add(-time.Duration(len(days)) * day)
	for d := range len(days) + ahead {
		v := fc.At(d)
		one := &quoratev1.ForecastDay{Day: secondProto(history.Second(begin.Add(time.Duration(d) * day).Unix())), Expected: max(0, v), Low: max(0, v+fc.Low), High: max(0, v+fc.High)}
		if d < len(days) && !math.IsNaN(days[d]) {
			one.Demand = &days[d]
		}
		out.Days = append(out.Days, one)
	}
	out.Statements = append(out.Statements, fmt.Sprintf("made of %d days; it changes by %+.3g tokens/s a day", fc.Days, fc.Slope))
	switch {
	case many:
		out.Statements = append(out.Statements, fmt.Sprintf("the limit is counted for many keys, each with %.4g tokens/s of its own, so their sum has no limit to reach; its busiest key is %q", out.Refill, clip(key.Key)))
	case out.Refill == 0:
		out.Statements = append(out.Statements, "there is no rule in force that refills by the second, so there is nothing to reach")
	default:
		reach(out, &fc, len(days), ahead)
	}
	if !out.Weekdays {
		out.Statements = append(out.Statements, "weekdays are not told apart: that takes three weeks")
	}
	if text := incomplete(out.Coverage); text != "" {
		out.Statements = append(out.Statements, text)
	}
	return out, nil
}

// reach says when demand is more than what is refilled.
func reach(out *quoratev1.ForecastResponse, fc *planning.Forecast, today, ahead int) {
	expected, earliest := fc.Reaches(out.Refill, today, ahead)
	days := func(d int) *int32 {
		if d < 0 {
			return nil
		}
		n := int32(d - today)
		return &n
	}
	out.DaysUntilFull, out.DaysUntilFullEarliest = days(expected), days(earliest)
	at := func(d int) string { return out.Days[d].Day.AsTime().Format(time.DateOnly) }
	switch {
	case expected >= 0:
		out.Statements = append(out.Statements, fmt.Sprintf("demand is expected to reach the refill of %.4g tokens/s in %d days, on %s; it may in %d", out.Refill, expected-today, at(expected), earliest-today))
	case earliest >= 0:
		out.Statements = append(out.Statements, fmt.Sprintf("demand is not expected to reach the refill of %.4g tokens/s within %d days; a busy day may in %d, on %s", out.Refill, ahead, earliest-today, at(earliest)))
	default:
		out.Statements = append(out.Statements, fmt.Sprintf("demand does not reach the refill of %.4g tokens/s within %d days", out.Refill, ahead))
	}
}

func (s *service) noisy(ctx context.Context, req *quoratev1.NoisyRequest) (*quoratev1.NoisyResponse, *fault) {
	name, f := s.pastLimit(req)
	if f != nil {
		return nil, f
	}
	times, f := mostOf("times", req.Times, maxTimes, usualTimes)
	if f == nil && times < 2 {
		f = badField("times", "%d; must be 2 to %d, or 0 for %d", times, maxTimes, usualTimes)
	}
	if f != nil {
		return nil, f
	}
	t, f := s.stretchOf(req.From, req.To, day)
	if f != nil {
		return nil, f
	}
	return s.noisyIn(ctx, name, t, times)
}

func (s *service) noisyIn(ctx context.Context, name quota.LimitName, t stretch, times int) (*quoratev1.NoisyResponse, *fault) {
	keys, err := s.past.HistoryKeys(ctx, history.KeysQuery{Limit: name, From: t.from, End: t.end, Top: MaxTop})
	if err != nil {
		return nil, fromError(err)
	}
	a, err := s.past.History(ctx, history.Query{Limit: name, From: t.from, End: t.end, Step: s.stepFor(t, usualPoints)})
	if err != nil {
		return nil, fromError(err)
	}
	total := totalOf(a.Points)
	out := &quoratev1.NoisyResponse{Known: int32(len(keys.Keys)), Use: pointProto(total), Coverage: coverage(t, &a)}
	if l := s.ruleOf(name); l != nil {
		out.Parent = l.Parent
	}
	median := medianOf(keys.Keys)
	out.Median = median.Tokens()
	for i := range keys.Keys {
		k := &keys.Keys[i]
		if len(keys.Keys) > 2 && median > 0 && k.Attempted >= median*quota.Units(times) {
			out.Keys = append(out.Keys, noisyKey(k, total, median, out.Parent))
		}
	}
	switch {
	case len(keys.Keys) < 3:
		out.Statements = append(out.Statements, fmt.Sprintf("%d keys are known: it takes three to tell a noisy one from the others", len(keys.Keys)))
	case len(out.Keys) == 0:
		out.Statements = append(out.Statements, fmt.Sprintf("no key was asked for %d times the median of %d tokens", times, out.Median))
	}
	if keys.Rest > 0 {
		out.Statements = append(out.Statements, fmt.Sprintf("the median is of the %d busiest keys; others were asked for at most %d tokens each", len(keys.Keys), keys.Rest.Tokens()))
	}
	if text := incomplete(out.Coverage); text != "" {
		out.Statements = append(out.Statements, text)
	}
	return out, nil
}

// medianOf is the median of what keys, the most first, were asked for: of an even number the lower one.
func medianOf(keys []history.KeyTotal) quota.Units {
	if len(keys) == 0 {
		return 0
	}
	all := make([]quota.Units, len(keys))
	for i := range keys {
		all[i] = keys[i].Attempted
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

func noisyKey(k *history.KeyTotal, total *history.Point, median quota.Units, parent string) *quoratev1.NoisyKey {
	out := &quoratev1.NoisyKey{Use: keyUse(k), TimesMedian: float64(k.Attempted) / float64(median)}
	refused := max(0, k.Attempted-k.Admitted)
	if total.Attempted > 0 {
		out.DemandPart = min(1, float64(k.Attempted)/float64(total.Attempted))
	}
	if total.Refused() > 0 {
		out.RefusedPart = min(1, float64(refused)/float64(total.Refused()))
	}
	others := max(0, total.Refused()-refused).Tokens()
	out.Statement = fmt.Sprintf("asked for %.0f%% of all demand, %.0f times the median, and was refused %d tokens", 100*out.DemandPart, out.TimesMedian, out.Use.Refused)
	switch {
	case parent == "":
		out.Statement += "; it took nothing from other keys, which have their own"
	case others == 0:
		out.Statement += "; it shares " + parent + " with the others, and they were refused nothing"
	default:
		part := 0.0
		if total.Admitted > 0 {
			part = 100 * float64(k.Admitted) / float64(total.Admitted)
		}
		out.Statement += fmt.Sprintf("; it got %.0f%% of what passed, out of %s that all share, while the others were refused %d tokens", part, parent, others)
	}
	return out
}
