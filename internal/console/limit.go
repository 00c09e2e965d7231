package console

import (
	"math"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/rbac"
)

// Bounds of the page of a limit.
const (
	limitKeys      = 20
	limitSummed    = 200 // keys that are added up
	limitOverrides = 20
	limitSeed      = 10 * time.Minute // past in the live chart
)

// limitPage is the data of the page of one limit: the present, the past, and what-if.
type limitPage struct {
	Namespace, Limit string
	Rule             *quoratev1.Limit // nil if the limit does not exist any more
	Accounts         bool             // an account policy: it has only a past
	Version          uint64
	MayWrite         bool
	MayKeys          bool

	Rates      *quoratev1.TopRatesResponse
	NoRates    *Problem
	Error      *quoratev1.LimitError // nil if there was no request
	Parts      bool                  // it has tiers or a floor
	rate       string
	Asked      float64
	Gave       float64
	Chart      Chart
	last       flowPoint
	Overrides  []*quoratev1.Override
	NOverrides int32
	Past       *past // nil while live
	Plan       *limitPlan
}

func (l *limitPage) Title() string { return limitTitle(l.Namespace, l.Limit) }

// Switches returns the other ways in which the limit may be enforced.
func (l *limitPage) Switches() []string {
	now := enumText(l.Rule.GetEnforcement().String(), "ENFORCEMENT_")
	var out []string
	for _, to := range []string{"enforce", "shadow"} {
		if to != now || to == "enforce" && l.Rule.GetFraction() > 0 && l.Rule.GetFraction() < 1 {
			out = append(out, to)
		}
	}
	return out
}

// WithinBound reports whether the limit was never over-admitted by more than its bound.
func (l *limitPage) WithinBound() bool {
	return l.Error == nil || !beyond(l.Error, rateOf(l.rate))
}

func limitPageOf() Page {
	return Page{
		Path: "limit", Title: "Limit", Template: "limit", Need: rbac.LimitsRead, Load: loadLimit, Live: []string{"now", "keys", "bound"}, Points: limitPoints,
		Data: map[string]func(*Request) (any, error){"whatif": whatIfData, "now": liveData, "curve": curveData},
	}
}

// isLive reports whether a page is loaded for a live update: then only volatile data is requested.
func isLive(r *Request) bool { return strings.HasPrefix(r.URL.Path, Root+"/live/") }

func loadLimit(r *Request) (any, error) {
	l := &limitPage{Namespace: r.Query("namespace"), Limit: r.Query("limit"), Asked: math.NaN(), Gave: math.NaN(), MayWrite: r.May(rbac.LimitsWrite), MayKeys: r.May(rbac.KeysRead)}
	if l.Namespace == "" || l.Limit == "" {
		return nil, &Problem{Status: http.StatusNotFound, Title: "Which limit?", Detail: "The address names no limit: choose one from the list of limits."}
	}
	if l.Accounts = l.Namespace == accountNamespace; l.Accounts {
		err := l.loadAccounts(r)
		return l, err
	}
	if !isLive(r) {
		if err := l.loadRule(r); err != nil {
			return nil, err
		}
	}
	l.loadRates(r)
	if isLive(r) {
		return l, nil
	}
	l.Chart = l.liveChart(r)
	var err error
	if l.Past, err = loadPast(r, l.Namespace, l.Limit, ""); err != nil {
		return nil, err
	}
	l.Chart.Brush = l.Past.Nav.Reset
	l.Plan = loadPlan(r, l)
	if l.Rule == nil && l.Error == nil && l.Past.Empty() {
		if l.NoRates != nil && l.NoRates.Status == http.StatusNotFound {
			return nil, l.NoRates // it names similar limits
		}
		return nil, &Problem{Status: http.StatusNotFound, Title: "Unknown limit", Detail: "The limit " + phrase.Clip(l.Title(), 260) + " does not exist, and has no history."}
	}
	return l, nil
}

// loadAccounts loads the past and the plan of an account policy.
func (l *limitPage) loadAccounts(r *Request) error {
	if isLive(r) {
		return nil
	}
	var err error
	if l.Past, err = loadPast(r, l.Namespace, l.Limit, ""); err != nil {
		return err
	}
	l.Plan = loadPlan(r, l)
	if l.Past.Empty() {
		return &Problem{Status: http.StatusNotFound, Title: "No history", Detail: "No request was recorded for accounts with the policy " + phrase.Clip(l.Limit, 260) + "."}
	}
	return nil
}

func (l *limitPage) loadRule(r *Request) error {
	res, err := r.Limits.GetLimits(r.Context(), &quoratev1.GetLimitsRequest{})
	if err != nil {
		return err
	}
	l.Version = res.Version
	for _, one := range res.Limits {
		if one.Namespace == l.Namespace && one.Name == l.Limit {
			l.Rule = one
			l.parts(one)
		}
	}
	over, err := r.API.Overrides.ListOverrides(r.Context(), &quoratev1.ListOverridesRequest{Namespace: l.Namespace, Limit: l.Limit, Max: limitOverrides})
	if err == nil { // without it there is one table less
		l.Overrides, l.NOverrides = over.Overrides, over.Total
	}
	return nil
}

func (l *limitPage) loadRates(r *Request) {
	res, err := r.Rates.TopRates(r.Context(), &quoratev1.TopRatesRequest{Namespace: l.Namespace, Limit: l.Limit, Top: limitSummed})
	if err != nil {
		l.NoRates = problemOf(err)
		return
	}
	l.Rates = res
	for _, e := range res.Limits {
		if e.Namespace == l.Namespace && e.Limit == l.Limit {
			l.Error = e
		}
	}
	f := r.c.flows.get(l.Namespace, l.Limit)
	f.add(res)
	if len(res.Keys) > 0 {
		l.parts(res.Keys[0].Rule)
	}
	if res.NextPageToken == "" { // these are all keys
		var asked, gave float64
		for _, k := range res.Keys {
			asked += k.Demand
			gave += k.Rate
		}
		f.setNewest(asked, gave)
	}
	res.Keys = res.Keys[:min(len(res.Keys), limitKeys)]
	if recent := f.recent(); len(recent) > 0 {
		l.last = recent[len(recent)-1]
		l.Asked, l.Gave = l.last.attemptedRate, l.last.admittedRate
	}
}

// parts notes whether the limit consists of several buckets, which are measured separately.
func (l *limitPage) parts(rule *quoratev1.Limit) {
	if rule.GetRate() != "" {
		l.rate = rule.Rate // also while live, when the rule itself is not asked for
	}
	l.Parts = l.Parts || len(rule.GetTiers()) > 0 || rule.GetFloor() != nil
}

// liveChart starts with the last minutes of the history, or else with what pages have seen.
func (l *limitPage) liveChart(r *Request) Chart {
	c := Chart{
		ID: "limit", Title: "Tokens a second, all keys", Unit: "/s", Height: 200,
		Series: []Series{{Name: "demand", Color: 2}, {Name: "admitted", Color: 1, Fill: true}},
	}
	c.Fill, _ = link("data/limit/now", "namespace", l.Namespace, "limit", l.Limit)
	now := r.Now()
	res, err := r.Rates.History(r.Context(), &quoratev1.HistoryRequest{Namespace: l.Namespace, Limit: l.Limit, From: timestamppb.New(now.Add(-limitSeed)), Step: durationpb.New(time.Second)})
	if err == nil && len(res.Points) > 1 {
		for _, p := range res.Points {
			at := p.Start.AsTime().Unix()
			if n := len(c.Times); n > 0 && at-c.Times[n-1] > 1 {
				c.gap(c.Times[n-1] + 1)
			}
			c.Times = append(c.Times, at)
			c.Series[0].Values = append(c.Series[0].Values, float64(p.Attempted))
			c.Series[1].Values = append(c.Series[1].Values, float64(p.Admitted))
		}
		if n := len(c.Times); now.Unix()-c.Times[n-1] > 1 { // the history has these seconds later
			c.gap(now.Unix())
		}
		return c
	}
	if l.NoRates != nil {
		return c
	}
	for _, p := range r.c.flows.get(l.Namespace, l.Limit).recent() {
		if !math.IsNaN(p.attemptedRate) {
			c.Times = append(c.Times, p.at.Unix())
			c.Series[0].Values = append(c.Series[0].Values, p.attemptedRate)
			c.Series[1].Values = append(c.Series[1].Values, p.admittedRate)
		}
	}
	return c
}

// liveData answers with the live chart as a page that is opened now would have it.
func liveData(r *Request) (any, error) {
	l := &limitPage{Namespace: r.Query("namespace"), Limit: r.Query("limit")}
	if l.loadRates(r); l.NoRates != nil {
		return nil, l.NoRates
	}
	return l.liveChart(r), nil
}

// limitPoints returns the newest rates for the chart.
func limitPoints(data any) map[string]Point {
	l := data.(*limitPage)
	if l.last.at.IsZero() || math.IsNaN(l.last.attemptedRate) {
		return nil
	}
	return map[string]Point{"limit": {At: float64(l.last.at.Unix()), Values: []float64{l.last.attemptedRate, l.last.admittedRate}}}
}

// Refused returns the refused tokens since the nodes started.
func (l *limitPage) Refused() int64 { return l.Error.GetAttempted() - l.Error.GetAdmitted() }

// OverPart returns the fraction of the admissions that was too much.
func (l *limitPage) OverPart() float64 {
	return l.Error.GetOverAdmitted() / float64(max(1, l.Error.GetAdmitted()))
}

// MoreOverrides reports whether not all overrides are listed.
func (l *limitPage) MoreOverrides() bool { return int(l.NOverrides) > len(l.Overrides) }
