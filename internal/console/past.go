package console

import (
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/planner"
)

// Bounds of the past.
const (
	pastKeys  = 20
	pastHoles = 12
	slackEnd  = 90 * time.Second // the newest minute may be incomplete
)

// past is the history of a limit, or of one key of it, in a time range.
type past struct {
	Namespace, Limit, Key string
	TimeRange             timeRange
	Nav                   timeRangeNav
	Problem               *Problem // why there is no answer
	Total                 *quoratev1.HistoryPoint
	Coverage              *quoratev1.Coverage
	Chart                 Chart
	Holes                 []hole
	MoreHoles             int
	Keys                  *quoratev1.HistoryKeysResponse
}

// hole is an interval with incomplete data.
type hole struct {
	From, To time.Time
	Unknown  bool // there is no data
	Missing  []string
}

// Text describes what is missing.
func (h hole) Text() string {
	layout, from, to := "15:04:05", h.From.UTC(), h.To.UTC()
	if from.Format(time.DateOnly) != to.Format(time.DateOnly) {
		layout = "2006-01-02 15:04"
	}
	out := from.Format(layout) + " to " + to.Format(layout) + " UTC: "
	switch {
	case h.Unknown:
		return out + "no data"
	case len(h.Missing) == 0:
		return out + "incomplete"
	}
	return out + strings.Join(h.Missing, ", ") + " has not reported everything"
}

// Empty reports whether there is no data for the whole range.
func (p *past) Empty() bool {
	return p == nil || p.Problem != nil || p.Coverage.GetSecondsKnown() == 0 && p.Total.GetAttempted() == 0
}

// loadPast reads the history of a limit, or of one key if it is given.
func loadPast(r *Request, namespace, limit, key string) (*past, error) {
	p := &past{Namespace: namespace, Limit: limit, Key: key}
	page, all, params := "limit", timeRanges, []any{"namespace", namespace, "limit", limit}
	if key != "" {
		page, all, params = "key", keyTimeRanges, append(params, "key", key)
	}
	var err error
	if p.TimeRange, err = timeRangeOf(r, all); err != nil {
		return nil, err
	}
	if key != "" {
		p.TimeRange.step = max(p.TimeRange.step, time.Minute)
	}
	if p.Nav, err = navOf(page, "past", r.Now(), p.TimeRange, all, params...); err != nil {
		return nil, err
	}
	from, to := p.TimeRange.ends()
	res, err := r.Rates.History(r.Context(), &quoratev1.HistoryRequest{Namespace: namespace, Limit: limit, Key: key, From: from, To: to, Step: durationpb.New(p.TimeRange.step)})
	if err != nil {
		p.Problem = problemOf(err)
		return p, nil
	}
	p.Total, p.Coverage = res.Total, res.Coverage
	p.draw(res)
	if key != "" {
		return p, nil
	}
	if keys, err := r.Rates.HistoryKeys(r.Context(), &quoratev1.HistoryKeysRequest{Namespace: namespace, Limit: limit, From: from, To: to, Top: pastKeys}); err == nil {
		p.Keys = keys
	}
	return p, nil
}

// draw makes the chart. Every step of the range has a point; unknown ones are gaps.
func (p *past) draw(res *quoratev1.HistoryResponse) {
	step := int64(p.TimeRange.step / time.Second)
	known := make(map[int64]*quoratev1.HistoryPoint, len(res.Points))
	for _, point := range res.Points {
		known[point.Start.AsTime().Unix()/step] = point
	}
	series := []Series{
		{Name: "mean", Color: 1, Fill: true},
		{Name: "refused", Color: 5},
		{Name: "peak second", Color: 2},
		{Name: "p99", Color: 4},
		{Name: "p95", Color: 6},
	}
	values := valuesOf
	switch {
	case p.Key != "":
		values = keyValuesOf
		series = []Series{{Name: "demand, at least", Color: 1, Fill: true}, {Name: "refused", Color: 5}, {Name: "demand, at most", Color: 2, Dash: true}}
	case step == 1:
		series = series[:2]
		series[0].Name = "demand"
	}
	p.Chart = Chart{ID: "past", Title: "Tokens a second", Unit: "/s", Height: 260, Brush: p.Nav.Reset}
	end := p.TimeRange.To
	if asOf := res.GetCoverage().GetAsOf(); asOf != nil && asOf.AsTime().Before(end) {
		end = asOf.AsTime()
	}
	var holes holeList
	for at := p.TimeRange.From.Unix() / step; at*step < end.Unix(); at++ {
		point := known[at]
		p.Chart.Times = append(p.Chart.Times, at*step)
		for i, v := range values(point)[:len(series)] {
			series[i].Values = append(series[i].Values, v)
		}
		t := time.Unix(at*step, 0)
		young := point != nil && end.Sub(t) < slackEnd
		if point == nil || !point.Complete && !young {
			holes.add(t, t.Add(p.TimeRange.step), point)
		}
	}
	p.Chart.Series = series
	for _, h := range holes {
		p.Chart.Marks = append(p.Chart.Marks, Mark{From: h.From.Unix(), To: h.To.Unix(), Unknown: h.Unknown})
	}
	p.Holes = holes
	if n := len(holes); n > pastHoles {
		p.MoreHoles, p.Holes = n-pastHoles, holes[n-pastHoles:]
	}
	p.Chart.Marks = p.Chart.Marks[max(0, len(p.Chart.Marks)-maxMarks):]
}

// valuesOf returns the values of a point in the order of the chart's lines.
func valuesOf(p *quoratev1.HistoryPoint) []float64 {
	if p == nil {
		return []float64{math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()}
	}
	return []float64{p.Mean, float64(p.Refused) / float64(max(1, p.Seconds)), p.Peak, p.P99, p.P95}
}

// keyValuesOf is valuesOf for one key: nodes list only their largest keys, so its demand lies
// between two bounds.
func keyValuesOf(p *quoratev1.HistoryPoint) []float64 {
	if p == nil {
		return []float64{math.NaN(), math.NaN(), math.NaN()}
	}
	seconds := float64(max(1, p.Seconds))
	return []float64{float64(p.Attempted) / seconds, float64(p.Refused) / seconds, float64(p.Attempted+p.Error) / seconds}
}

// holeList merges adjacent holes.
type holeList []hole

func (l *holeList) add(from, to time.Time, p *quoratev1.HistoryPoint) {
	h := hole{From: from, To: to, Unknown: p == nil, Missing: p.GetMissing()}
	if n := len(*l); n > 0 {
		last := &(*l)[n-1]
		if last.To.Equal(from) && last.Unknown == h.Unknown && strings.Join(last.Missing, ",") == strings.Join(h.Missing, ",") {
			last.To = to
			return
		}
	}
	*l = append(*l, h)
}

// CoverageText describes how much of the range is known.
func (p *past) CoverageText() string {
	if p.Coverage.GetSecondsTotal() == 0 {
		return ""
	}
	return sentence(planner.CoverageText(p.Coverage))
}
