package planner

import (
	"context"
	"slices"
	"time"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
)

// keyHistory queries each point of a key separately. A point is as complete as the limit's point. Where
// nothing is known of the limit, there is no point.
func (s *Planner) keyHistory(ctx context.Context, name quota.LimitName, t timeRange, step int, out *quoratev1.HistoryResponse) (*quoratev1.HistoryResponse, error) {
	if n := t.points(step); n > mostOfKey {
		return nil, apierr.Invalid("from", "has %d points of %v; at most %d for a key: choose a shorter time", n, time.Duration(step)*time.Second, mostOfKey)
	}
	all, err := s.node.History(ctx, history.Query{Limit: name, From: t.from, End: t.end, Step: step})
	if err != nil {
		return nil, apierr.From(err)
	}
	merged := history.Answer{AsOf: all.AsOf, RangesCovered: all.RangesCovered, RangesTotal: all.RangesTotal}
	var gaps []history.Gap // a list names the time before it that no list covers
	var more []int64
	for i := range all.Points {
		of := &all.Points[i]
		a, err := s.node.HistoryKeys(ctx, history.KeysQuery{Limit: name, From: of.Start, End: of.Start + history.Second(step), Top: apiproto.MaxTop})
		if err != nil {
			return nil, apierr.From(err)
		}
		merged.AsOf, merged.RangesCovered, merged.RangesTotal = a.AsOf, a.RangesCovered, a.RangesTotal
		gaps = append(gaps, a.Gaps...)
		if of.Start >= a.AsOf {
			break
		}
		u := history.KeyTotal{Key: out.Key, Error: a.Rest} // for a key that is not in the list: at most this
		if i := slices.IndexFunc(a.Keys, func(k history.KeyTotal) bool { return k.Key == out.Key }); i >= 0 {
			u = a.Keys[i]
		}
		merged.Points = append(merged.Points, history.Point{
			Start: of.Start, Seconds: step, Counts: history.Counts{Attempted: u.Attempted, Admitted: u.Admitted}, Mean: u.Attempted / quota.Units(step),
			Complete: of.Complete && a.RangesCovered == a.RangesTotal, Missing: of.Missing,
		})
		more = append(more, u.Error.Tokens())
	}
	if s.neverWas(name, all.Points) {
		return nil, s.noLimit(name)
	}
	rest := int64(0)
	for i := range merged.Points {
		p := &merged.Points[i]
		if slices.ContainsFunc(gaps, func(g history.Gap) bool { return g.From < p.Start+history.Second(step) && p.Start < g.End }) {
			p.Complete = false
		}
		pb := pointProto(p)
		pb.Error = more[i]
		out.Points, rest = append(out.Points, pb), rest+more[i]
	}
	out.Total, out.Coverage = pointProto(totalOf(merged.Points)), coverage(t, &merged)
	out.Total.Error, out.Total.Peak = rest, 0
	return out, nil
}

// HistoryKeys implements quoratev1.RateServiceServer.
func (s *Planner) HistoryKeys(ctx context.Context, req *quoratev1.HistoryKeysRequest) (*quoratev1.HistoryKeysResponse, error) {
	name, err := s.pastLimit(req)
	if err != nil {
		return nil, err
	}
	t, err := s.timeRangeOf(req.From, req.To, hour)
	if err != nil {
		return nil, err
	}
	top, err := mostOf("top", req.Top, apiproto.MaxTop, apiproto.DefaultTop)
	if err != nil {
		return nil, err
	}
	a, err := s.node.HistoryKeys(ctx, history.KeysQuery{Limit: name, From: t.from, End: t.end, Top: top})
	if err != nil {
		return nil, apierr.From(err)
	}
	if len(a.Keys) == 0 && a.Rest == 0 && !ofAccounts(name) && !s.active(name) {
		return nil, s.noLimit(name)
	}
	out := &quoratev1.HistoryKeysResponse{
		Rest:         a.Rest.Tokens(),
		Coverage:     coverage(t, &history.Answer{AsOf: a.AsOf, RangesCovered: a.RangesCovered, RangesTotal: a.RangesTotal}),
		Unattributed: a.Unattributed.Tokens(), UnattributedSeconds: int64(history.GapSeconds(a.Gaps)),
	}
	for i := range a.Keys {
		out.Keys = append(out.Keys, keyUse(&a.Keys[i]))
	}
	return out, nil
}

func keyUse(k *history.KeyTotal) *quoratev1.KeyUse {
	return &quoratev1.KeyUse{
		Key: k.Key, Attempted: k.Attempted.Tokens(), Admitted: k.Admitted.Tokens(),
		Refused: max(0, k.Attempted-k.Admitted).Tokens(), Error: k.Error.Tokens(),
	}
}
