package console

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/health"
	"github.com/quorate/quorate/internal/rbac"
)

const overviewEvery = time.Second

// Bounds of the lists on the overview.
const (
	overviewKeys   = 8
	overviewLimits = 8
)

// overview is the data of the overview. What the caller may not read is omitted, with a note.
type overview struct {
	Status     *quoratev1.GetStatusResponse
	Rates      *quoratev1.TopRatesResponse
	NoStatus   *Problem
	NoRates    *Problem
	Verdict    health.State
	Up         int
	Leaderless []uint32
	Lagging    int
	Faults     []string
	Asked      float64 // tokens per second
	Gave       float64
	Chart      Chart
	Bound      boundState
	MayKeys    bool
	last       flowPoint
}

// boundState says whether the stated bound of over-admission is kept, and by how much.
type boundState struct {
	Limits         int
	Beyond         []*quoratev1.LimitError // worst first
	Worst          []boundRow              // closest to their bound first
	Over, Needless float64                 // tokens
	OverPart       float64                 // fraction of the admissions
	NeedlessPart   float64                 // fraction of the attempts, at least
	// NeedlessPartAtMost is the upper bound of NeedlessPart.
	NeedlessPartAtMost float64
	CutOff             float64
	NeedlessAtMost     float64
	Attempted, Given   int64
}

func loadOverview(r *Request) (any, error) {
	o := &overview{Asked: math.NaN(), Gave: math.NaN(), MayKeys: r.May(rbac.KeysRead)}
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
	o.Chart = Chart{ID: "flow", Title: "Tokens requested and admitted, whole cluster", Unit: "/s", Fill: Root + "/data/overview/flow", Series: []Series{{Name: "demand", Color: 2, Dash: true}, {Name: "admitted", Color: 1, Fill: true}}}
	for _, p := range points {
		o.Chart.Times = append(o.Chart.Times, p.at.Unix())
		o.Chart.Series[0].Values = append(o.Chart.Series[0].Values, p.attemptedRate)
		o.Chart.Series[1].Values = append(o.Chart.Series[1].Values, p.admittedRate)
		o.Asked, o.Gave, o.last = p.attemptedRate, p.admittedRate, p
	}
}

// flowData answers with the chart as a page that is opened now would have it.
func flowData(r *Request) (any, error) {
	rates, err := r.Rates.TopRates(r.Context(), &quoratev1.TopRatesRequest{Top: 1})
	if err != nil {
		return nil, err
	}
	o := &overview{}
	r.c.flow.add(rates)
	o.flow(r.c.flow.recent())
	o.seed(r)
	return o.Chart, nil
}

func overviewPoints(data any) map[string]Point {
	o, ok := data.(*overview)
	if !ok || math.IsNaN(o.Asked) {
		return nil
	}
	return map[string]Point{"flow": {float64(o.last.at.Unix()), []float64{o.Asked, o.Gave}}}
}

// excessSlack is the measurement error of an excess in tokens, in addition to what refills between
// two reports.
const excessSlack = 1

// beyond reports whether a limit has exceeded its bound by more than the measurement error. rate is
// the refill per second.
func beyond(e *quoratev1.LimitError, rate float64) bool {
	return e.WorstExcess > e.Bound+excessSlack+rate*e.LongestGap.AsDuration().Seconds()
}

// rateOf parses a rate of a limit, such as 5/m or 100/10s, in tokens per second; 0 for none.
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

// boundOf adds up the measurements of leaders. limits, if given, determine the measurement error.
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

// boundRow is a limit and whether it has exceeded its bound.
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

// ofBound returns the used fraction of a limit's bound.
func ofBound(e *quoratev1.LimitError) float64 {
	if e.Bound <= 0 {
		return e.WorstExcess
	}
	return e.WorstExcess / e.Bound
}

// Bounds of the past in the chart of the overview. Each limit costs a read of the history, so with
// more limits the chart starts with what pages have seen.
const (
	seedLimits = 20
	seedBack   = 5 * time.Minute
	seedWait   = time.Second // longest time that the page waits for it
)

// seedPoint is one second of the history: attempts and admissions, or NaN if one limit is unknown.
type seedPoint struct {
	at          int64 // unix seconds
	asked, gave float64
}

// seed puts the last minutes of the history before the live points. These are only rates: the
// points from which live rates are computed stay as they are. Without a live rate yet, the page shows that
// of the last second. The list of limits requires a
// permission everywhere, so readers of only some namespaces get no past.
func (o *overview) seed(r *Request) {
	ctx, cancel := context.WithTimeout(r.Context(), seedWait)
	defer cancel()
	from := r.Now().Add(-seedBack).Truncate(time.Second)
	limits, err := r.Rates.HistoryLimits(ctx, &quoratev1.HistoryLimitsRequest{From: timestamppb.New(from), Top: seedLimits + 1})
	if err != nil || limits.GetCoverage().GetRangesCovered() < limits.GetCoverage().GetRangesTotal() {
		return // without it the chart begins later
	}
	past, ok := pastOf(ctx, r, limits.Limits, from)
	if !ok {
		return
	}
	seed := summed(past, from.Unix(), int64(seedBack/time.Second))
	if len(seed) == 0 {
		return
	}
	o.Chart.begin(seed)
	if last := seed[len(seed)-1]; math.IsNaN(o.Asked) { // a live rate needs two answers of the leaders
		o.Asked, o.Gave, o.last.at = last.asked, last.gave, time.Unix(last.at, 0)
	}
}

// pastOf requests the past of all limits concurrently; false if one is unknown or there are too
// many. Account policies are omitted, because live rates do not contain them.
func pastOf(ctx context.Context, r *Request, limits []*quoratev1.LimitUse, from time.Time) (past []*quoratev1.HistoryResponse, ok bool) {
	if len(limits) > seedLimits {
		return nil, false
	}
	limits = slices.DeleteFunc(limits, func(l *quoratev1.LimitUse) bool { return l.Namespace == accountNamespace })
	past = make([]*quoratev1.HistoryResponse, len(limits))
	var all sync.WaitGroup
	for i, l := range limits {
		all.Go(func() {
			res, err := r.Rates.History(ctx, &quoratev1.HistoryRequest{Namespace: l.Namespace, Limit: l.Limit, From: timestamppb.New(from), Step: durationpb.New(time.Second)})
			if err == nil {
				past[i] = res
			}
		})
	}
	all.Wait()
	return past, !slices.Contains(past, nil)
}

// summed adds up n seconds of all limits. A second without a complete point of every limit is a
// gap: a partial sum would show a dip that did not happen. Gaps at both ends are removed.
func summed(past []*quoratev1.HistoryResponse, from, n int64) []seedPoint {
	out := make([]seedPoint, n)
	told := make([]int, n)
	for i := range out {
		out[i].at = from + int64(i)
	}
	for _, one := range past {
		for _, p := range one.Points {
			i := p.Start.AsTime().Unix() - from
			if i < 0 || i >= n || !p.Complete || p.Seconds != 1 {
				continue
			}
			out[i].asked += float64(p.Attempted)
			out[i].gave += float64(p.Admitted)
			told[i]++
		}
	}
	first, end := n, int64(0)
	for i := range n {
		if told[i] < len(past) || len(past) == 0 {
			out[i].asked, out[i].gave = math.NaN(), math.NaN()
			continue
		}
		first, end = min(first, i), i+1
	}
	if first >= end {
		return nil
	}
	return out[first:end]
}

// begin puts points before those that pages have seen without interruption until now. Points before
// the interruption are dropped, because times must ascend. A run begins with a point without a
// rate, which forms the gap between the two until the seed reaches it.
func (c *Chart) begin(seed []seedPoint) {
	run := 0
	for i, v := range c.Series[0].Values {
		if math.IsNaN(v) {
			run = i
		}
	}
	if n := len(seed); n > 0 && run < len(c.Times) && math.IsNaN(c.Series[0].Values[run]) && seed[n-1].at >= c.Times[run] {
		run++
	}
	var times []int64
	var asked, gave []float64
	for _, p := range seed {
		if run < len(c.Times) && p.at >= c.Times[run] {
			break
		}
		times, asked, gave = append(times, p.at), append(asked, p.asked), append(gave, p.gave)
	}
	c.Times = append(times, c.Times[run:]...)
	c.Series[0].Values = append(asked, c.Series[0].Values[run:]...)
	c.Series[1].Values = append(gave, c.Series[1].Values[run:]...)
}
