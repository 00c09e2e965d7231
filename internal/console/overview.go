package console

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/health"
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
	Verdict    health.Verdict
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
	Limits         int
	Beyond         []*quoratev1.LimitError // worst first
	Worst          []boundRow              // nearest to their bound first
	Over, Needless float64                 // tokens
	OverPart       float64                 // of what was admitted
	NeedlessPart   float64                 // of what was attempted, at least
	// NeedlessPartAtMost is the upper bound of NeedlessPart.
	NeedlessPartAtMost float64
	CutOff             float64
	NeedlessAtMost     float64
	Attempted, Given   int64
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
		if !isLive(r) { // the chart is drawn once
			o.seed(r)
		}
		o.Bound = boundOf(rates.Limits, nil)
		if len(o.Bound.Beyond) > 0 { // look closer: how true is what was measured?
			if res, err := r.Limits.GetLimits(r.Context(), &quoratev1.GetLimitsRequest{}); err == nil {
				o.Bound = boundOf(rates.Limits, res.Limits)
			}
		}
	}
	return o, nil
}

func (o *overview) health() {
	if o.Status == nil {
		return
	}
	o.Verdict = health.Of(o.Status)
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

// excessSlack is what an excess may be measured wrong by, in tokens, besides what refills
// between two reports.
const excessSlack = 1

// beyond says whether a limit has been further from what it says than its bound, by more
// than it may be measured wrong by. rate is what refills in a second.
func beyond(e *quoratev1.LimitError, rate float64) bool {
	return e.WorstExcess > e.Bound+excessSlack+rate*e.LongestGap.AsDuration().Seconds()
}

// rateOf reads a rate as limits have it, such as 5/m or 100/10s, in tokens a second; 0 is
// none.
func rateOf(text string) float64 {
	count, per, _ := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(count, 64)
	if per != "" && (per[0] < '0' || per[0] > '9') {
		per = "1" + per
	}
	days := 1.0
	if d, ok := strings.CutSuffix(per, "d"); ok {
		per, days = d+"h", 24
	}
	long, errLong := time.ParseDuration(per)
	if err != nil || errLong != nil || long <= 0 {
		return 0
	}
	return n / (days * long.Seconds())
}

// boundOf adds up what the leaders have measured. limits, if they are known, say how true
// it is.
func boundOf(list []*quoratev1.LimitError, limits []*quoratev1.Limit) (b boundState) {
	b.Limits = len(list)
	rates := map[string]float64{}
	for _, l := range limits {
		rates[l.Namespace+"/"+l.Name] = rateOf(l.Rate)
	}
	for _, e := range list {
		b.Over += e.OverAdmitted
		b.CutOff += e.OverAdmittedCutOff
		b.Needless += e.NeedlessRefusals
		b.NeedlessAtMost += e.NeedlessRefusalsAtMost
		b.Attempted += e.Attempted
		b.Given += e.Admitted
		row := boundRow{e, beyond(e, rates[e.Namespace+"/"+e.Limit])}
		if row.Beyond {
			b.Beyond = append(b.Beyond, e)
		}
		b.Worst = append(b.Worst, row)
	}
	if b.Given > 0 {
		b.OverPart = b.Over / float64(b.Given)
	}
	if b.Attempted > 0 {
		b.NeedlessPart = b.Needless / float64(b.Attempted)
		b.NeedlessPartAtMost = b.NeedlessAtMost / float64(b.Attempted)
	}
	slices.SortStableFunc(b.Worst, func(x, y boundRow) int {
		if x.Beyond != y.Beyond {
			return cmp.Compare(btoi(y.Beyond), btoi(x.Beyond))
		}
		return cmp.Compare(ofBound(y.LimitError), ofBound(x.LimitError))
	})
	b.Worst = b.Worst[:min(len(b.Worst), overviewLimits)]
	return b
}

// boundRow is one limit, and whether it has broken its bound.
type boundRow struct {
	*quoratev1.LimitError
	Beyond bool
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ofBound is how much of its bound a limit has used up.
func ofBound(e *quoratev1.LimitError) float64 {
	if e.Bound <= 0 {
		return e.WorstExcess
	}
	return e.WorstExcess / e.Bound
}
