package console

import (
	"cmp"
	"math"
	"slices"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

const overviewEvery = time.Second

// Bounds of what the overview lists.
const (
	overviewKeys   = 8
	overviewLimits = 8
)

// overview is what the page shows. What the caller may not read is left out, and said.
type overview struct {
	Status     *quoratev1.GetStatusResponse
	Rates      *quoratev1.TopRatesResponse
	NoStatus   *Problem
	NoRates    *Problem
	Up         int
	Leaderless []uint32
	Lagging    int
	Faults     []string
	Asked      float64 // tokens a second
	Gave       float64
	Chart      Chart
	Bound      boundState
	last       flowPoint
}

// boundState says whether the stated bound of over-admission is kept, and by what.
type boundState struct {
	Limits           int
	Beyond           []*quoratev1.LimitError // worst first
	Worst            []*quoratev1.LimitError // nearest to their bound first
	Over, Needless   float64                 // tokens
	OverPart         float64                 // of what was admitted
	NeedlessPart     float64                 // of what was attempted
	CutOff           float64
	NeedlessAtMost   float64
	Attempted, Given int64
}

func loadOverview(r *Request) (any, error) {
	o := &overview{Asked: math.NaN(), Gave: math.NaN()}
	st, err := r.Cluster.GetStatus(r.Context(), &quoratev1.GetStatusRequest{})
	if err != nil {
		o.NoStatus = problemOf(err)
	}
	rates, err := r.Rates.TopRates(r.Context(), &quoratev1.TopRatesRequest{Top: overviewKeys})
	if err != nil {
		o.NoRates = problemOf(err)
	}
	o.Status, o.Rates = st, rates
	o.health()
	if rates != nil {
		r.c.flow.add(rates)
		o.flow(r.c.flow.recent())
		o.Bound = boundOf(rates.Limits)
	}
	return o, nil
}

func (o *overview) health() {
	if o.Status == nil {
		return
	}
	for _, n := range o.Status.Nodes {
		if n.Connected {
			o.Up++
		}
		for _, f := range n.Faults {
			o.Faults = append(o.Faults, n.Id+": "+f)
		}
	}
	for _, g := range o.Status.Ranges {
		if g.Leader == "" {
			o.Leaderless = append(o.Leaderless, g.Id)
		}
		if g.Step != "" {
			o.Lagging++
		}
	}
}

func (o *overview) flow(points []flowPoint) {
	o.Chart = Chart{ID: "flow", Title: "Tokens asked for and admitted, whole cluster", Unit: "/s", Series: []Series{{Name: "asked", Color: 2, Dash: true}, {Name: "admitted", Color: 1, Fill: true}}}
	for _, p := range points {
		o.Chart.Times = append(o.Chart.Times, p.at.Unix())
		o.Chart.Series[0].Values = append(o.Chart.Series[0].Values, p.askedRate)
		o.Chart.Series[1].Values = append(o.Chart.Series[1].Values, p.gaveRate)
		o.Asked, o.Gave, o.last = p.askedRate, p.gaveRate, p
	}
}

func overviewPoints(data any) map[string]Point {
	o, ok := data.(*overview)
	if !ok || math.IsNaN(o.Asked) {
		return nil
	}
	return map[string]Point{"flow": {float64(o.last.at.Unix()), []float64{o.Asked, o.Gave}}}
}

// excessSlack is what an excess may be measured wrong by, in tokens.
const excessSlack = 1

// boundOf adds up what the leaders have measured.
func boundOf(list []*quoratev1.LimitError) (b boundState) {
	b.Limits = len(list)
	for _, e := range list {
		b.Over += e.OverAdmitted
		b.CutOff += e.OverAdmittedCutOff
		b.Needless += e.NeedlessRefusals
		b.NeedlessAtMost += e.NeedlessRefusalsAtMost
		b.Attempted += e.Attempted
		b.Given += e.Admitted
		if e.WorstExcess > e.Bound+excessSlack {
			b.Beyond = append(b.Beyond, e)
		}
	}
	if b.Given > 0 {
		b.OverPart = b.Over / float64(b.Given)
	}
	if b.Attempted > 0 {
		b.NeedlessPart = b.Needless / float64(b.Attempted)
	}
	b.Worst = slices.Clone(list)
	slices.SortStableFunc(b.Worst, func(x, y *quoratev1.LimitError) int { return cmp.Compare(ofBound(y), ofBound(x)) })
	b.Worst = b.Worst[:min(len(b.Worst), overviewLimits)]
	return b
}

// ofBound is how much of its bound a limit has used up.
func ofBound(e *quoratev1.LimitError) float64 {
	if e.Bound <= 0 {
		return e.WorstExcess
	}
	return e.WorstExcess / e.Bound
}
