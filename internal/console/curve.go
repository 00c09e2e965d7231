package console

import (
	"math"
	"slices"
	"strconv"
	"sync"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// Bounds of the curve of a limit: each point costs a what-if.
const (
	curvePoints = 14
	curveAtOnce = 4
)

// curveChart returns the chart of the refused share by rate, without points: the script asks for
// them, so the page does not wait.
func (s *slider) curveChart() (Chart, error) {
	c := Chart{ID: "curve", Title: "Refused share of the recorded demand, by rate", Unit: " %", Height: 220, X: "rate", XUnit: "/" + s.Unit, At: []float64{}}
	c.Lines = []Line{{At: s.Amount, Name: "current"}}
	var err error
	c.From, err = link("data/limit/curve", append([]any{"namespace", s.Namespace, "limit", s.Limit, "unit", s.Unit, "least", s.Least, "most", s.Most, "now", s.Amount}, s.TimeRange.params()...)...)
	return c, err
}

// amounts returns the rates of the curve's points, in ascending order: evenly spread, in whole
// steps of the slider because windows take only those, and the current one.
func (s *slider) amounts() []float64 {
	out := []float64{s.Amount}
	for i := range curvePoints {
		v := s.Least + float64(i)*(s.Most-s.Least)/(curvePoints-1)
		out = append(out, math.Round(1e6*s.Least*math.Round(v/s.Least))/1e6)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// curveData answers with the curve for the burst of the form.
func curveData(r *Request) (any, error) {
	in, err := timeRangeOf(r, timeRanges)
	if err != nil {
		return nil, err
	}
	s := &slider{Namespace: r.Query("namespace"), Limit: r.Query("limit"), TimeRange: in, Unit: r.Query("unit")}
	for name, to := range map[string]*float64{"least": &s.Least, "most": &s.Most, "now": &s.Amount} {
		if *to, err = strconv.ParseFloat(r.Query(name), 64); err != nil || !(*to > 0) || *to > 1e12 {
			return nil, wrongField(name, r.Query(name), "a number above 0")
		}
	}
	c, err := s.curveChart()
	if err != nil {
		return nil, err
	}
	if err := s.curve(r, &c, r.Query("burst")); err != nil {
		return nil, err
	}
	return &whatIf{Chart: c}, nil
}

// curve fills the chart with what each rate would have refused.
func (s *slider) curve(r *Request, c *Chart, burst string) error {
	at := s.amounts()
	outcomes, faults := make([]*quoratev1.WhatIfOutcome, len(at)), make([]error, len(at))
	slots := make(chan struct{}, curveAtOnce)
	var all sync.WaitGroup
	for i, amount := range at {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			res, err := s.try(r, strconv.FormatFloat(amount, 'f', -1, 64), burst)
			outcomes[i], faults[i] = res.GetOutcome(), err
		})
	}
	all.Wait()
	exact := true
	series := []Series{{Name: "refused, likely", Color: 5, Fill: true}, {Name: "at least", Color: 2, Dash: true}, {Name: "at most", Color: 4, Dash: true}}
	for i, o := range outcomes {
		if faults[i] != nil {
			return faults[i]
		}
		share := func(n int64) float64 { return 100 * float64(n) / float64(max(1, o.GetAttempted())) }
		c.At = append(c.At, at[i])
		for k, n := range []int64{o.GetRefusedLikely(), o.GetRefusedAtLeast(), o.GetRefusedAtMost()} {
			series[k].Values = append(series[k].Values, share(n))
		}
		exact = exact && o.GetRefusedAtLeast() == o.GetRefusedAtMost()
	}
	if exact { // all three are one line
		series[2].Name, series[2].Color, series[2].Dash, series[2].Fill = "refused", 5, false, true
		series = series[2:]
	}
	c.Series = series
	return nil
}
