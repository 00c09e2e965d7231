package console

import (
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/phrase"
)

// limitPlan is the data for planning a limit.
type limitPlan struct {
	Headroom  *quoratev1.LimitHeadroom
	Suggested []suggestion
	Forecast  *quoratev1.ForecastResponse
	Days      Chart
	NoFuture  string  // why there is no forecast
	Slider    *slider // nil for kinds of rules that have none
	NoSlider  string
}

// suggestion is the smallest rate that would have refused no more than a fraction.
type suggestion struct {
	Part  string
	Rule  string
	Would string
	Says  []string
}

// slider is a form to try another rule.
type slider struct {
	Namespace, Limit            string
	TimeRange                   timeRange
	Unit                        string // period of the amount, such as s
	Amount, Least, Most, Step   float64
	Burst, BurstMost, BurstJump int64 // 0 for windows
	Out                         map[string]string
	Chart, Curve                Chart
}

func loadPlan(r *Request, l *limitPage) *limitPlan {
	p := &limitPlan{}
	if l.Past.Empty() {
		p.NoSlider = "No history yet to try rules on."
		return p
	}
	from, to := l.Past.TimeRange.ends()
	if res, err := r.Rates.Headroom(r.Context(), &quoratev1.HeadroomRequest{Namespace: l.Namespace, Limit: l.Limit, From: from, To: to, Top: 1}); err == nil && len(res.Limits) > 0 {
		p.Headroom = res.Limits[0]
	}
	rule := l.Rule
	if l.Accounts {
		rule = p.Headroom.GetRule()
	}
	if rule == nil && l.Accounts {
		p.NoSlider = "No loaded policy of this name refills over time."
		return p
	}
	if rule == nil {
		p.NoSlider = "The limit is deleted: no rule to change."
		return p
	}
	for _, ppm := range []int64{0, 10_000} {
		res, err := r.Rates.Suggest(r.Context(), &quoratev1.SuggestRequest{Namespace: l.Namespace, Limit: l.Limit, From: from, To: to, RefusedPpm: ppm})
		if err != nil {
			continue
		}
		s := suggestion{Part: "nothing", Rule: ruleText(res.GetOutcome().GetRule()), Would: refusedText(res.Outcome), Says: res.Statements}
		if ppm > 0 {
			s.Part = "at most " + part(float64(ppm)/1e6)
		}
		p.Suggested = append(p.Suggested, s)
	}
	p.forecast(r, l)
	p.Slider, p.NoSlider = sliderOf(rule, l.Past.TimeRange)
	if p.Slider != nil {
		if got, err := p.Slider.ask(r, "", ""); err != nil {
			p.NoSlider, p.Slider = notYet(err), nil
		} else {
			p.Slider.Chart, p.Slider.Out = got.Chart, got.Out
			if p.Slider.Curve, err = p.Slider.curveChart(); err != nil {
				p.NoSlider, p.Slider = notYet(err), nil
			}
		}
	}
	return p
}

func (p *limitPlan) forecast(r *Request, l *limitPage) {
	res, err := r.Rates.Forecast(r.Context(), &quoratev1.ForecastRequest{Namespace: l.Namespace, Limit: l.Limit})
	if err != nil {
		p.NoFuture = notYet(err)
		return
	}
	p.Forecast = res
	c := Chart{ID: "forecast", Title: res.Measure, Unit: "/s", Height: 220, Series: []Series{
		{Name: "was", Color: 1}, {Name: "expected", Color: 2, Dash: true}, {Name: "90th percentile", Color: 4, Dash: true}, {Name: "refill", Color: 5, Steps: true},
	}}
	for _, d := range res.Days {
		was := math.NaN()
		if d.Demand != nil {
			was = *d.Demand
		}
		c.Times = append(c.Times, d.Day.AsTime().Unix())
		for i, v := range []float64{was, d.Expected, d.High, res.Refill} {
			c.Series[i].Values = append(c.Series[i].Values, v)
		}
	}
	p.Days = c
}

// notYet says why the history has no answer.
func notYet(err error) string {
	p := problemOf(err)
	if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusNotImplemented {
		return "Not available yet: " + p.Detail
	}
	return p.Detail
}

var amountPer = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)/([0-9a-z]+)$`)

// sliderOf returns the slider for a rule, or the reason why the rule has no slider.
func sliderOf(l *quoratev1.Limit, in timeRange) (*slider, string) {
	const none = "Only rules with one bucket or window can be tried here; quorate plan what-if covers the others."
	if l.Class != quoratev1.Class_CLASS_COUNTED && l.Class != quoratev1.Class_CLASS_UNSPECIFIED || len(l.Tiers) > 0 {
		return nil, none
	}
	switch l.Kind {
	case quoratev1.Kind_KIND_BUCKET, quoratev1.Kind_KIND_FIXED, quoratev1.Kind_KIND_SLIDING, quoratev1.Kind_KIND_PERIODIC:
	default:
		return nil, none
	}
	m := amountPer.FindStringSubmatch(l.Rate)
	if m == nil {
		return nil, none
	}
	amount, _ := strconv.ParseFloat(m[1], 64)
	s := &slider{Namespace: l.Namespace, Limit: l.Name, TimeRange: in, Unit: m[2], Amount: amount}
	s.Step = math.Pow(10, math.Floor(math.Log10(max(4*amount, 1)))-2)
	if l.Kind != quoratev1.Kind_KIND_BUCKET {
		s.Step = max(1, s.Step)
	} else {
		s.Burst, s.BurstJump = l.Burst, max(1, int64(math.Pow(10, math.Floor(math.Log10(max(4*float64(l.Burst), 1)))-2)))
		s.BurstMost = max(10, 4*l.Burst)
	}
	s.Least, s.Most = s.Step, max(4*amount, 10*s.Step)
	return s, ""
}

// whatIf is the answer to the form of a slider.
type whatIf struct {
	Chart Chart             `json:"chart"`
	Out   map[string]string `json:"out"`
}

// whatIfData answers with what another rule would have done.
func whatIfData(r *Request) (any, error) {
	in, err := timeRangeOf(r, timeRanges)
	if err != nil {
		return nil, err
	}
	s := &slider{Namespace: r.Query("namespace"), Limit: r.Query("limit"), TimeRange: in, Unit: r.Query("unit")}
	return s.ask(r, r.Query("amount"), r.Query("burst"))
}

// try asks what a rule would have done; empty values mean the current ones.
func (s *slider) try(r *Request, amount, burst string) (*quoratev1.WhatIfResponse, error) {
	from, to := s.TimeRange.ends()
	req := &quoratev1.WhatIfRequest{Namespace: s.Namespace, Limit: s.Limit, From: from, To: to}
	if amount != "" {
		req.Rate = amount + "/" + s.Unit
	}
	if burst != "" {
		b, err := strconv.ParseInt(burst, 10, 64)
		if err != nil {
			return nil, &Problem{Status: 400, Title: "Invalid value", Detail: fmt.Sprintf("The burst %q must be a whole number.", phrase.Clip(burst, 40)), Field: "burst"}
		}
		req.Burst = &b
	}
	return r.Rates.WhatIf(r.Context(), req)
}

// ask answers with what a rule would have done; empty values mean the current ones.
func (s *slider) ask(r *Request, amount, burst string) (*whatIf, error) {
	res, err := s.try(r, amount, burst)
	if err != nil {
		return nil, err
	}
	w := &whatIf{Chart: whatIfChart(res), Out: map[string]string{
		"result": resultText(res),
		"rule":   ruleText(res.GetOutcome().GetRule()), "refused": refusedText(res.Outcome), "now": refusedText(res.Now),
		"then": num(res.RefusedThen) + " tokens", "says": sentences(res.Statements),
	}}
	w.Chart.From, err = link("data/limit/whatif", append([]any{"namespace", s.Namespace, "limit", s.Limit, "unit", s.Unit}, s.TimeRange.params()...)...)
	return w, err
}

// resultText says in one sentence what a rule would have refused, beside what was refused.
func resultText(res *quoratev1.WhatIfResponse) string {
	o := res.GetOutcome()
	if o.GetAttempted() == 0 {
		return "There was no demand in this time range."
	}
	share := func(n int64) string { return part(float64(n) / float64(o.Attempted)) }
	of := share(o.RefusedLikely) + " of " + num(o.Attempted) + " tokens would have been refused"
	if o.RefusedAtLeast != o.RefusedAtMost || o.Estimate {
		of = "about " + of
		if least, most := share(o.RefusedAtLeast), share(o.RefusedAtMost); least != most {
			of += ", between " + least + " and " + most
		}
	}
	return "With " + ruleText(o.Rule) + ", " + of + "; " + share(res.RefusedThen) + " were actually refused."
}

// sentences joins statements without full stops.
func sentences(list []string) string {
	var out []string
	for _, s := range list {
		if s != "" {
			out = append(out, sentence(s))
		}
	}
	return strings.Join(out, " ")
}

// sentence makes a sentence of a statement that begins in lower case and has no full stop.
func sentence(s string) string {
	if s == "" || strings.HasSuffix(s, ".") {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

func whatIfChart(res *quoratev1.WhatIfResponse) Chart {
	c := Chart{ID: "whatif", Title: "Tokens a second: requested, and refused", Unit: "/s", Height: 220, Series: []Series{
		{Name: "demand", Color: 1, Fill: true}, {Name: "refused then", Color: 5}, {Name: "would be refused, at least", Color: 2}, {Name: "at most", Color: 4, Dash: true},
	}}
	if res.Basis == quoratev1.Basis_BASIS_KEYS {
		c.Series = c.Series[:2] // when each key came is not known
	}
	for _, p := range res.Points {
		c.Times = append(c.Times, p.Start.AsTime().Unix())
		s := float64(max(1, p.Seconds))
		for i, v := range []int64{p.Attempted, p.Refused, p.RefusedAtLeast, p.RefusedAtMost}[:len(c.Series)] {
			c.Series[i].Values = append(c.Series[i].Values, float64(v)/s)
		}
	}
	return c
}

// refusedText describes what a rule would have refused, and how certain that is.
func refusedText(o *quoratev1.WhatIfOutcome) string {
	if o == nil {
		return "–"
	}
	of := func(n int64) string { return part(float64(n) / float64(max(1, o.Attempted))) }
	out := span(num(o.RefusedAtLeast), num(o.RefusedAtMost)) + " of " + num(o.Attempted) + " tokens, " + span(of(o.RefusedAtLeast), of(o.RefusedAtMost))
	switch {
	case o.Exact || o.RefusedAtLeast == o.RefusedAtMost && !o.Estimate:
		return out + " (exact)"
	case o.Estimate:
		return "about " + out + " (an estimate)"
	case o.RefusedAtMost-o.RefusedAtLeast > o.Attempted/20:
		return out + ", likely " + of(o.RefusedLikely)
	}
	return out + " (bounds)"
}
