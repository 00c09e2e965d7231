package planner

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
)

// History reads the past. All methods may ask other nodes. If no replica that keeps the history answers,
// they return an error for which [IsNoLeader] is true.
type History interface {
	// History returns the points of a limit.
	History(ctx context.Context, q history.Query) (history.Answer, error)
	// HistoryKeys returns the most requested keys of a limit.
	HistoryKeys(ctx context.Context, q history.KeysQuery) (history.KeysAnswer, error)
	// HistoryLimits returns all limits that were used. The answer has no points.
	HistoryLimits(ctx context.Context, from, end history.Second) ([]history.UsedLimit, history.Answer, error)
}

// Bounds on queries about the past.
const (
	MaxPoints    = 20_000           // in one answer
	maxKeyPoints = 60               // for one key: each is a query of its own
	mostOfKey    = maxKeyPoints + 1 // the first and the last may be partial
	usualPoints  = 1500             // maximum in an answer without a requested step
	maxLimits    = 1000             // limits in an answer

	hour = time.Hour
	day  = 24 * hour
	week = 7 * day
	// longest is how far back a query may begin: longer than anything is kept.
	longest = 3 * 366 * day
)

// timeRange is a time range, with its start and without its end.
type timeRange struct{ from, end history.Second }

func (t timeRange) seconds() int64 { return int64(t.end - t.from) }

// points returns the number of points of step seconds that the time range touches.
func (t timeRange) points(step int) int64 {
	n := int64(step)
	return (int64(t.end)+n-1)/n - int64(t.from)/n
}

// timeRangeOf validates from and to. usual is the length of the time range if from is missing.
func (s *Planner) timeRangeOf(from, to *timestamppb.Timestamp, usual time.Duration) (timeRange, error) {
	now := s.clock()
	end := now
	if to != nil && to.AsTime().Before(now) {
		end = to.AsTime()
	}
	begin := end.Add(-usual)
	if from != nil {
		begin = from.AsTime()
	}
	switch {
	case !begin.Before(end):
		return timeRange{}, apierr.Invalid("from", "is %s, and the end %s; must be before it, and before now", shortTime(begin), shortTime(end))
	case end.Sub(begin) > longest:
		return timeRange{}, apierr.Invalid("from", "is %s; must be at most three years before the end", shortTime(begin))
	}
	return timeRange{history.Second(begin.Unix()), history.Second(end.Add(time.Second - 1).Unix())}, nil
}

func shortTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// pastLimit validates the limit of a query about the past. The limit need not exist any more.
func (s *Planner) pastLimit(m interface {
	GetNamespace() string
	GetLimit() string
},
) (quota.LimitName, error) {
	name := quota.LimitName{Namespace: m.GetNamespace(), Limit: m.GetLimit()}
	if !ofAccounts(name) {
		return name, apiproto.CheckLimitName(name)
	}
	if err := quota.CheckRecorded(name); err != nil {
		return name, apierr.InvalidName("limit", err)
	}
	return name, nil
}

// pointStep is a length of points, with how far back such points are kept.
type pointStep struct {
	seconds int
	back    time.Duration
}

var steps = []pointStep{{1, hour}, {60, 30 * day}, {3600, longest}}

// stepFor returns the finest step that is kept for a time range and yields at most most points.
func (s *Planner) stepFor(t timeRange, most int64) int {
	for _, step := range steps {
		if s.clock().Sub(time.Unix(int64(t.from), 0)) <= step.back+time.Minute && t.seconds()/int64(step.seconds) <= most {
			return step.seconds
		}
	}
	return steps[len(steps)-1].seconds
}

// History implements quoratev1.RateServiceServer.
func (s *Planner) History(ctx context.Context, req *quoratev1.HistoryRequest) (*quoratev1.HistoryResponse, error) {
	name, err := s.pastLimit(req)
	if err != nil {
		return nil, err
	}
	t, err := s.timeRangeOf(req.From, req.To, hour)
	if err != nil {
		return nil, err
	}
	out := &quoratev1.HistoryResponse{Namespace: name.Namespace, Limit: name.Limit, Key: req.Key}
	if len(req.Key) > quota.MaxKeyLen {
		return nil, apierr.Invalid("key", "is %d bytes; at most %d", len(req.Key), quota.MaxKeyLen)
	}
	step, err := s.stepOf(req, t)
	if err != nil {
		return nil, err
	}
	out.Step = durationpb.New(time.Duration(step) * time.Second)
	if req.Key != "" {
		return s.keyHistory(ctx, name, t, step, out)
	}
	a, err := s.node.History(ctx, history.Query{Limit: name, From: t.from, End: t.end, Step: step})
	if err != nil {
		return nil, apierr.From(err)
	}
	for i := range a.Points {
		out.Points = append(out.Points, pointProto(&a.Points[i]))
	}
	out.Total, out.Coverage = pointProto(totalOf(a.Points)), coverage(t, &a)
	if s.neverWas(name, a.Points) {
		return nil, s.noLimit(name)
	}
	return out, nil
}

// neverWas reports whether a limit does not exist now and no earlier use of it is known.
func (s *Planner) neverWas(name quota.LimitName, points []history.Point) bool {
	return totalOf(points).Attempted == 0 && !s.active(name)
}

func (s *Planner) active(name quota.LimitName) bool {
	limits := s.node.Limits()
	if name.IsInline() || limits == nil {
		return name.IsInline()
	}
	_, ok := limits.Find(name)
	return ok
}

// stepOf validates the requested step, or chooses one.
func (s *Planner) stepOf(req *quoratev1.HistoryRequest, t timeRange) (int, error) {
	if req.Step == nil {
		if req.Key != "" {
			if step := max(60, s.stepFor(t, maxKeyPoints)); t.points(step) <= mostOfKey {
				return step, nil
			}
			return 3600, nil
		}
		return s.stepFor(t, usualPoints), nil
	}
	d := req.Step.AsDuration()
	i := slices.IndexFunc(steps, func(x pointStep) bool { return time.Duration(x.seconds)*time.Second == d })
	switch n := t.seconds(); {
	case i == 0 && req.Key != "":
		return 0, apierr.Invalid("step", "is 1s, and seconds of single keys are not recorded; must be 1m or 1h")
	case i < 0:
		return 0, apierr.Invalid("step", "is %v; must be 1s, 1m or 1h; for a key 1m or 1h", d)
	case n/int64(steps[i].seconds) > MaxPoints:
		return 0, apierr.Invalid("step", "is %v, which makes %d points; at most %d: choose a longer step or a shorter time", d, n/int64(steps[i].seconds), MaxPoints)
	case req.Key != "" && t.points(steps[i].seconds) > mostOfKey:
		return 0, apierr.Invalid("step", "is %v, which makes %d points; at most %d for a key: choose a longer step or a shorter time", d, t.points(steps[i].seconds), mostOfKey)
	}
	return steps[i].seconds, nil
}

// mostOf validates the requested number of entries in an answer.
func mostOf(field string, n int32, most, usual int) (int, error) {
	if n < 0 || int(n) > most {
		return 0, apierr.Invalid(field, "%d; must be 1 to %d, or 0 for %d", n, most, usual)
	}
	return cmp.Or(int(n), usual), nil
}

// HistoryLimits implements quoratev1.RateServiceServer.
func (s *Planner) HistoryLimits(ctx context.Context, req *quoratev1.HistoryLimitsRequest) (*quoratev1.HistoryLimitsResponse, error) {
	top, err := mostOf("top", req.Top, maxLimits, maxLimits)
	if err != nil {
		return nil, err
	}
	list, a, t, err := s.used(ctx, req.Namespace, req.From, req.To, hour)
	if err != nil {
		return nil, err
	}
	out := &quoratev1.HistoryLimitsResponse{Total: int32(len(list)), Coverage: usedCoverage(t, &a, list)}
	for i := range list[:min(top, len(list))] {
		u := &list[i]
		out.Limits = append(out.Limits, &quoratev1.LimitUse{Namespace: u.Limit.Namespace, Limit: u.Limit.Limit, Use: pointProto(&u.Point)})
	}
	return out, nil
}

// used returns the limits of a namespace that were used, most requested first.
func (s *Planner) used(ctx context.Context, namespace string, from, to *timestamppb.Timestamp, usual time.Duration) ([]history.UsedLimit, history.Answer, timeRange, error) {
	if namespace != "" && namespace != quota.AccountNamespace {
		if err := quota.CheckName("namespace", namespace); err != nil {
			return nil, history.Answer{}, timeRange{}, apierr.InvalidName("namespace", err)
		}
	}
	t, err := s.timeRangeOf(from, to, usual)
	if err != nil {
		return nil, history.Answer{}, t, err
	}
	list, a, err := s.node.HistoryLimits(ctx, t.from, t.end)
	if err != nil {
		return nil, a, t, apierr.From(err)
	}
	list = slices.DeleteFunc(slices.Clone(list), func(u history.UsedLimit) bool { return namespace != "" && u.Limit.Namespace != namespace })
	slices.SortFunc(list, func(x, y history.UsedLimit) int {
		return cmp.Or(cmp.Compare(y.Attempted, x.Attempted), x.Limit.Compare(y.Limit))
	})
	return list, a, t, nil
}

// usedCoverage returns the coverage of a list of limits. It is complete only if all limits are.
func usedCoverage(t timeRange, a *history.Answer, list []history.UsedLimit) *quoratev1.Coverage {
	out := coverage(t, a)
	if len(list) == 0 {
		return out
	}
	out.SecondsKnown, out.SecondsComplete = 0, out.SecondsTotal
	for i := range list {
		p := &list[i].Point
		out.SecondsKnown = min(out.SecondsTotal, max(out.SecondsKnown, int64(p.Seconds)))
		if !p.Complete {
			out.SecondsComplete = 0
		}
		out.Missing = withNames(out.Missing, p.Missing)
	}
	return out
}

// coverage returns how complete an answer is.
func coverage(t timeRange, a *history.Answer) *quoratev1.Coverage {
	out := &quoratev1.Coverage{RangesCovered: int32(a.RangesCovered), RangesTotal: int32(a.RangesTotal), SecondsTotal: max(0, int64(min(t.end, a.AsOf)-t.from))}
	if a.AsOf > 0 {
		out.AsOf = secondProto(a.AsOf)
	}
	for i := range a.Points {
		p := &a.Points[i]
		n := int64(max(0, min(p.Start+history.Second(p.Seconds), t.end)-max(p.Start, t.from)))
		out.SecondsKnown += n
		if p.Complete {
			out.SecondsComplete += n
		}
		if len(p.Missing) > 0 && out.MissingSince == nil {
			out.MissingSince = secondProto(p.Start)
		}
		out.Missing = withNames(out.Missing, p.Missing)
	}
	if at := firstKnown(t, a); at > t.from {
		out.Begins = secondProto(at)
	}
	return out
}

// firstKnown returns when the points begin to be whole, if the first begins later than the time range. A first
// point that is incomplete although no process is missing began before the history did.
func firstKnown(t timeRange, a *history.Answer) history.Second {
	if len(a.Points) == 0 || a.Points[0].Start <= t.from {
		return t.from
	}
	p := &a.Points[0]
	if next := p.Start + history.Second(p.Seconds); !p.Complete && len(p.Missing) == 0 && next < min(t.end, a.AsOf) {
		return next
	}
	return p.Start
}

// withNames adds the names of the processes' nodes, without duplicates.
func withNames(names []string, missing []history.Process) []string {
	for _, m := range missing {
		if n := string(m.Node); len(names) < history.MaxMissing && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}

func secondProto(s history.Second) *timestamppb.Timestamp {
	return &timestamppb.Timestamp{Seconds: int64(s)}
}

// inTokens converts units to tokens.
func inTokens(u quota.Units) float64 { return float64(u) / float64(quota.Token) }

func pointProto(p *history.Point) *quoratev1.HistoryPoint {
	return &quoratev1.HistoryPoint{
		Start: secondProto(p.Start), Seconds: int32(min(p.Seconds, math.MaxInt32)),
		Attempted: p.Attempted.Tokens(), Admitted: p.Admitted.Tokens(), Refused: p.Refused().Tokens(),
		OverAdmitted: inTokens(p.Over), NeedlessRefusals: inTokens(p.Needless), NeedlessRefusalsAtMost: inTokens(max(p.Needless, p.NeedlessAtMost)),
		Peak: inTokens(p.Peak), Mean: inTokens(p.Mean), P50: inTokens(p.P50), P95: inTokens(p.P95), P99: inTokens(p.P99),
		Complete: p.Complete, Missing: withNames(nil, p.Missing),
	}
}

// totalOf sums points. Percentiles are exact for points of one second; for others they are the highest of
// any point.
func totalOf(points []history.Point) *history.Point {
	if len(points) == 0 {
		return &history.Point{}
	}
	out := &history.Point{Start: points[0].Start, Complete: true}
	demand := make([]quota.Units, 0, len(points))
	for i := range points {
		p := &points[i]
		out.Add(&p.Counts)
		out.Seconds += p.Seconds
		out.Complete = out.Complete && p.Complete
		out.Peak, out.P50, out.P95, out.P99 = max(out.Peak, p.Peak), max(out.P50, p.P50), max(out.P95, p.P95), max(out.P99, p.P99)
		for _, m := range p.Missing {
			if len(out.Missing) < history.MaxMissing && !slices.Contains(out.Missing, m) {
				out.Missing = append(out.Missing, m)
			}
		}
		demand = append(demand, p.Attempted)
	}
	out.Mean = out.Attempted / quota.Units(max(1, out.Seconds))
	if out.Seconds == len(points) {
		slices.Sort(demand)
		at := func(percent int) quota.Units { return demand[(len(demand)*percent+99)/100-1] }
		out.P50, out.P95, out.P99, out.Peak = at(50), at(95), at(99), demand[len(demand)-1]
	}
	return out
}
