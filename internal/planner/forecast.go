package planner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/phrase"
	planning "github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds on forecasts.
const (
	usualDays  = 56
	maxDays    = 730
	usualAhead = 90
	maxAhead   = 365
	dayHours   = 12 // minimum known hours for a day to count
)

// Forecast implements quoratev1.RateServiceServer.
func (s *Planner) Forecast(ctx context.Context, req *quoratev1.ForecastRequest) (*quoratev1.ForecastResponse, error) {
	name, err := s.pastLimit(req)
	if err != nil {
		return nil, err
	}
	days, err := mostOf("days", req.Days, maxDays, usualDays)
	if err == nil && days < planning.MinDays {
		err = apierr.Invalid("days", "%d; must be 7 to %d, or 0 for %d", days, maxDays, usualDays)
	}
	if err != nil {
		return nil, err
	}
	ahead, err := mostOf("ahead", req.Ahead, maxAhead, usualAhead)
	if err != nil {
		return nil, err
	}
	today := s.clock().UTC().Truncate(day)
	t := timeRange{history.Second(today.Add(-time.Duration(days) * day).Unix()), history.Second(today.Unix())}
	a, err := s.node.History(ctx, history.Query{Limit: name, From: t.from, End: t.end, Step: 3600})
	if err != nil {
		return nil, apierr.From(err)
	}
	if s.neverWas(name, a.Points) {
		return nil, s.noLimit(name)
	}
	k, err := s.busiest(ctx, name, t)
	if err != nil {
		return nil, err
	}
	l := s.ruleOf(name)
	out := &quoratev1.ForecastResponse{Coverage: coverage(t, &a), Refill: refill(l)}
	whole := k.many || l == nil || slow(l)
	out.Measure = "the 99th percentile of the demand of a second, in the busiest hour of a day"
	if whole {
		out.Measure = "the mean demand of a second in the busiest hour of a day, all keys together"
	}
	return s.fit(out, byDay(a.Points, t.from, days, whole), ahead, name, k.many, &k.key)
}

// byDay returns one number per day, or NaN for a day with fewer than dayHours known hours.
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

// fit computes the forecast for the coming days.
func (s *Planner) fit(out *quoratev1.ForecastResponse, days []float64, ahead int, name quota.LimitName, many bool, key *history.KeyTotal) (*quoratev1.ForecastResponse, error) {
	first := 0 // the first day with demand: earlier days are neither a gap nor a trend
	for first < len(days) && (math.IsNaN(days[first]) || days[first] == 0) {
		first++
	}
	days = days[first:]
	fc, err := planning.Fit(days)
	if errors.Is(err, planning.ErrTooFewDays) {
		missing := planning.MinDays - fc.Days
		return nil, apierr.NotNow("the history of %v has %s, and a forecast needs %d; possible in %s, on %s",
			name, phrase.Plural(fc.Days, "day"), planning.MinDays, phrase.Plural(missing, "day"), s.clock().UTC().Add(time.Duration(missing)*day).Format(time.DateOnly))
	}
	if err != nil {
		return nil, apierr.From(err)
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
	out.Statements = append(out.Statements, fmt.Sprintf("based on %d days; trend %+.3g tokens/s a day", fc.Days, fc.Slope))
	switch {
	case ofAccounts(name):
		out.Statements = append(out.Statements, fmt.Sprintf("each account has %.4g units/s, so their sum has no limit; the demand of each is not recorded", out.Refill))
	case many:
		out.Statements = append(out.Statements, fmt.Sprintf("the limit is counted for many keys, each with %.4g tokens/s, so their sum has no limit; its busiest key is %q", out.Refill, apierr.Clip(key.Key)))
	case out.Refill == 0:
		out.Statements = append(out.Statements, "the limit has no active rule that refills over time, so it has no capacity to reach")
	default:
		reach(out, &fc, len(days), ahead)
	}
	if !out.Weekdays {
		out.Statements = append(out.Statements, "weekdays are not distinguished: that needs three weeks")
	}
	out.Statements = append(out.Statements, coverageStatements(out.Coverage)...)
	return out, nil
}

// reach states when demand exceeds the refill.
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
		out.Statements = append(out.Statements, fmt.Sprintf("demand is expected to reach the refill of %.4g tokens/s in %d days, on %s, at the earliest in %d", out.Refill, expected-today, at(expected), earliest-today))
	case earliest >= 0:
		out.Statements = append(out.Statements, fmt.Sprintf("demand is not expected to reach the refill of %.4g tokens/s within %d days; a busy day may reach it in %d, on %s", out.Refill, ahead, earliest-today, at(earliest)))
	default:
		out.Statements = append(out.Statements, fmt.Sprintf("demand is not expected to reach the refill of %.4g tokens/s within %d days, even on busy days", out.Refill, ahead))
	}
}
