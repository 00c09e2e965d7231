package console

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// Bounds of what the chart of the overview begins with. Each limit costs a read of the history, so with
// more limits the chart begins with what pages have seen.
const (
	seedLimits = 20
	seedBack   = 5 * time.Minute
	seedWait   = time.Second // the page waits no longer for it
)

// seedPoint is a second of the history: what was asked for and admitted, or NaN when that is not known
// of every limit.
type seedPoint struct {
	at          int64 // unix seconds
	asked, gave float64
}

// seed puts the last minutes of the history before the live points. They are rates alone: the points that
// live rates are made from are not touched. The list of limits is asked for everywhere, so who may
// read only some namespaces is refused, and has none.
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
	if seed := summed(past, from.Unix(), int64(seedBack/time.Second)); len(seed) > 0 {
		o.Chart.begin(seed)
	}
}

// pastOf asks for the past of each limit, all at once; ok is false when one is not known, or when they are
// too many. The policies of accounts are not in the live rates, and so not here.
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

// summed adds up n seconds of all limits. A second that one of them has no complete point of is a gap:
// a sum of some would be a dip that never was. Gaps at both ends are left out.
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

// begin puts points before those that pages have seen without a pause until now; what they saw before that
// pause goes, for times ascend. A run begins with a point of no rate, which is the gap between both.
func (c *Chart) begin(seed []seedPoint) {
	run := 0
	for i, v := range c.Series[0].Values {
		if math.IsNaN(v) {
			run = i
		}
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
