package recorder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// maxHistoryPoints bounds the points of one answer: more than a day of seconds, two months of minutes or
// ten years of hours.
const maxHistoryPoints = 100_000

const (
	maxKeys   = 1000 // in one answer
	askAtOnce = 16   // ranges asked concurrently
)

// History returns the history of a limit, on any node. It asks the leader of the range that keeps the
// limit, or another replica if there is no leader. A limit that nobody used has points of zeros as far
// as the log reaches. History returns a membership.Error of kind Invalid for an invalid query, and a
// NoLeaderError if no replica answers.
func (s *Recorder) History(ctx context.Context, q history.Query) (history.Answer, error) {
	if err := checkHistoryQuery(q); err != nil {
		return history.Answer{}, err
	}
	r := OwnerRange(q.Limit, s.cfg.Ranges)
	res, err := s.readHistory(ctx, r, &peerv1.CallHistoryRead{Query: &peerv1.CallHistoryRead_Points{Points: &peerv1.HistoryPoints{
		Ranges: []uint32{uint32(r)}, Namespace: q.Limit.Namespace, Limit: q.Limit.Limit, From: int64(q.From), End: int64(q.End), Step: uint32(q.Step),
	}}})
	if err != nil {
		return history.Answer{}, err
	}
	out := history.Answer{AsOf: history.Second(res.AsOf), RangesCovered: 1, RangesTotal: 1}
	for _, p := range res.Points {
		_, point, err := decodeHistoryPoint(p)
		if err != nil {
			return history.Answer{}, err
		}
		out.Points = append(out.Points, point)
	}
	return out, nil
}

// HistoryKeys returns the most requested keys of a limit, on any node. It covers the minutes that contain
// From and End; of a time range beyond six hours, it covers what is older than an hour in whole hours. Each key's
// range keeps the key's minutes. The answer lacks ranges without a replica that answers. Errors are as
// for History.
func (s *Recorder) HistoryKeys(ctx context.Context, q history.KeysQuery) (history.KeysAnswer, error) {
	if err := checkTimeRange(q.From, q.End); err != nil {
		return history.KeysAnswer{}, err
	}
	if q.Top < 1 || q.Top > maxKeys {
		return history.KeysAnswer{}, invalidHistory("top: %d; must be 1 to %d", q.Top, maxKeys)
	}
	out := history.KeysAnswer{RangesTotal: s.cfg.Ranges}
	var lists []history.TopKeys
	var gaps []history.Gap
	s.eachRange(ctx, func(r quota.RangeID) *peerv1.CallHistoryRead {
		return &peerv1.CallHistoryRead{Query: &peerv1.CallHistoryRead_Keys{Keys: &peerv1.HistoryPoints{
			Ranges: []uint32{uint32(r)}, Namespace: q.Limit.Namespace, Limit: q.Limit.Limit, From: int64(q.From), End: int64(q.End), Top: uint32(q.Top),
		}}}
	}, func(res *peerv1.CallHistoryReadResult) {
		out.RangesCovered++
		out.AsOf = max(out.AsOf, history.Second(res.AsOf)) // a range without a leader writes no list
		if p := (history.KeyPeak{Key: res.GetPeak().GetKey(), Attempted: quota.Units(res.GetPeak().GetAttempted()), Seconds: history.Second(res.PeakSeconds)}); p.Above(&out.Peak) {
			out.Peak = p
		}
		list := history.TopKeys{Rest: quota.Units(res.RestMicroTokens)}
		for _, k := range res.Keys {
			list.Keys = append(list.Keys, history.KeyTotal{Key: k.Key, Attempted: quota.Units(k.Attempted), Admitted: quota.Units(k.Admitted), Error: quota.Units(k.Error)})
		}
		lists = append(lists, list)
		for _, g := range res.Gaps {
			gaps = append(gaps, history.Gap{From: history.Second(g.From), End: history.Second(g.End)})
		}
	})
	if ctx.Err() != nil {
		return history.KeysAnswer{}, ctx.Err()
	}
	top := history.TopOf(q.Limit, lists, q.Top)
	out.Keys, out.Rest, out.Gaps = top.Keys, top.Rest, history.Gaps(gaps, maxGapsAnswered)
	var err error
	out.Unattributed, err = s.unattributed(ctx, q.Limit, out.Gaps)
	return out, err
}

// maxGapsAnswered bounds the gaps in an answer. Each gap costs a history query.
const maxGapsAnswered = 20

// eachRange asks a replica of every range, askAtOnce ranges at a time, and calls f with one answer after
// another.
func (s *Recorder) eachRange(ctx context.Context, ask func(quota.RangeID) *peerv1.CallHistoryRead, f func(*peerv1.CallHistoryReadResult)) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, askAtOnce)
	for r := range quota.RangeID(s.cfg.Ranges) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			res, err := s.readHistory(ctx, r, ask(r))
			if err != nil {
				return // the count of covered ranges leaves it out
			}
			mu.Lock()
			defer mu.Unlock()
			f(res)
		})
	}
	wg.Wait()
}

// HistoryLimits returns every limit that was used from from until before end, most requested first, and
// how many ranges answered; the answer has no points. It lacks ranges without a replica that answers.
// Errors are as for History.
func (s *Recorder) HistoryLimits(ctx context.Context, from, end history.Second) ([]history.UsedLimit, history.Answer, error) {
	if err := checkTimeRange(from, end); err != nil {
		return nil, history.Answer{}, err
	}
	out := history.Answer{RangesTotal: s.cfg.Ranges}
	var all []history.UsedLimit
	s.eachRange(ctx, func(r quota.RangeID) *peerv1.CallHistoryRead {
		return &peerv1.CallHistoryRead{Query: &peerv1.CallHistoryRead_Limits{Limits: &peerv1.HistoryPoints{
			Ranges: []uint32{uint32(r)}, From: int64(from), End: int64(end),
		}}}
	}, func(res *peerv1.CallHistoryReadResult) {
		out.RangesCovered++
		if at := history.Second(res.AsOf); at > 0 && (out.AsOf == 0 || at < out.AsOf) {
			out.AsOf = at
		}
		for _, p := range res.Limits {
			if limit, point, err := decodeHistoryPoint(p); err == nil {
				all = append(all, history.UsedLimit{Limit: limit, Point: point})
			}
		}
	})
	if ctx.Err() != nil {
		return nil, history.Answer{}, ctx.Err()
	}
	slices.SortFunc(all, func(a, b history.UsedLimit) int {
		return cmp.Or(cmp.Compare(b.Attempted, a.Attempted), a.Limit.Compare(b.Limit))
	})
	return all, out, nil
}

// readHistory asks the leader of a range, or else its other replicas in turn.
func (s *Recorder) readHistory(ctx context.Context, r quota.RangeID, ask *peerv1.CallHistoryRead) (*peerv1.CallHistoryReadResult, error) {
	to := s.node.Leader(r)
	all := []quota.NodeID{to}
	for _, id := range append([]quota.NodeID{s.cfg.Self.Node}, s.node.Voters(r)...) {
		if !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	why := fmt.Errorf("range %d: no replica is connected", r)
	for _, id := range all {
		res, err := s.readHistoryOf(ctx, id, ask)
		if err == nil {
			return res, nil
		}
		if id != "" && id != s.cfg.Self.Node {
			why = fmt.Errorf("%s: %w", id, err)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return nil, &quota.NoLeaderError{Reason: fmt.Sprintf("history: no replica of range %d answers: %v", r, why)}
}

var errNoReplica = errors.New("it has no replica")

func (s *Recorder) readHistoryOf(ctx context.Context, id quota.NodeID, ask *peerv1.CallHistoryRead) (*peerv1.CallHistoryReadResult, error) {
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case id == s.cfg.Self.Node:
		return s.onHistoryRead(ctx, ask)
	case !s.node.Up(id):
		return nil, errNoReplica
	}
	ctx, cancel := context.WithTimeout(ctx, historyReadLimit)
	defer cancel()
	res, err := s.node.Call(ctx, id, &peerv1.Call{Body: &peerv1.Call_HistoryRead{HistoryRead: ask}})
	if err != nil {
		return nil, err
	}
	return res.GetHistoryReadResult(), nil
}

// historyReadLimit bounds the time that one replica may take: it reads its disk.
const historyReadLimit = 5 * time.Second

// onHistoryRead answers a query from this node's replica of a range.
func (s *Recorder) onHistoryRead(ctx context.Context, ask *peerv1.CallHistoryRead) (*peerv1.CallHistoryReadResult, error) {
	if q := ask.GetStored(); q != nil {
		return s.onStored(q)
	}
	q := ask.GetPoints()
	if q == nil {
		q = ask.GetLimits()
	}
	if q == nil {
		q = ask.GetKeys()
	}
	if q == nil || len(q.Ranges) != 1 || s.node.Replica(quota.RangeID(q.Ranges[0])) == nil {
		return nil, errors.New("unknown history query")
	}
	r := quota.RangeID(q.Ranges[0])
	if !s.node.Open(r) {
		return nil, errNoReplica
	}
	out := &peerv1.CallHistoryReadResult{Ranges: q.Ranges}
	if ask.GetKeys() != nil {
		return out, s.localKeys(r, q, out)
	}
	if ask.GetLimits() != nil {
		all, asOf, err := s.localLimits(ctx, r, history.Second(q.From), history.Second(q.End))
		for i := range all {
			out.Limits = append(out.Limits, encodeHistoryPoint(all[i].Limit, &all[i].Point))
		}
		out.AsOf = int64(asOf)
		return out, err
	}
	query := history.Query{
		Limit: quota.LimitName{Namespace: q.Namespace, Limit: q.Limit}, From: history.Second(q.From), End: history.Second(q.End), Step: int(q.Step),
	}
	if err := checkHistoryQuery(query); err != nil {
		return nil, err
	}
	points, asOf, err := s.localPoints(r, query)
	for i := range points {
		out.Points = append(out.Points, encodeHistoryPoint(quota.LimitName{}, &points[i]))
	}
	out.AsOf = int64(asOf)
	return out, err
}

// localKeys answers a query for keys from this node's replica of the range.
func (s *Recorder) localKeys(r quota.RangeID, q *peerv1.HistoryPoints, out *peerv1.CallHistoryReadResult) error {
	l := quota.LimitName{Namespace: q.Namespace, Limit: q.Limit}
	sum, asOf, err := s.Files.Keys.Read(r, s.node.Replica(r), l, history.Second(q.From), history.Second(q.End))
	if err != nil {
		return err
	}
	top := sum.Top(l, int(min(q.Top, maxKeys)))
	out.AsOf, out.RestMicroTokens = int64(asOf), int64(top.Rest)
	if p := sum.Peak(); p.Seconds > 0 {
		out.Peak, out.PeakSeconds = &peerv1.HistoryKey{Key: p.Key, Attempted: int64(p.Attempted)}, int64(p.Seconds)
	}
	for _, k := range top.Keys {
		out.Keys = append(out.Keys, &peerv1.HistoryKey{Key: k.Key, Attempted: int64(k.Attempted), Admitted: int64(k.Admitted), Error: int64(k.Error)})
	}
	for _, g := range sum.Span().Gaps {
		out.Gaps = append(out.Gaps, &peerv1.HistoryGap{From: int64(g.From), End: int64(g.End)})
	}
	return nil
}

func encodeHistoryPoint(l quota.LimitName, p *history.Point) *peerv1.HistoryPoint {
	out := &peerv1.HistoryPoint{
		Namespace: l.Namespace, Limit: l.Limit, Start: int64(p.Start), Seconds: uint32(p.Seconds), Complete: p.Complete, Amounts: p.Append(nil),
	}
	if len(p.Missing) > 0 {
		out.Missing = history.AppendProcesses(nil, p.Missing)
	}
	return out
}

func decodeHistoryPoint(pb *peerv1.HistoryPoint) (quota.LimitName, history.Point, error) {
	l := quota.LimitName{Namespace: pb.Namespace, Limit: pb.Limit}
	p, err := history.DecodePoint(pb.Amounts)
	if err == nil && len(pb.Missing) > 0 {
		p.Missing, err = history.DecodeProcesses(pb.Missing)
	}
	p.Start, p.Seconds, p.Complete = history.Second(pb.Start), int(pb.Seconds), pb.Complete
	return l, p, err
}

func checkHistoryQuery(q history.Query) error {
	if err := checkTimeRange(q.From, q.End); err != nil {
		return err
	}
	if !slices.Contains([]int{1, 60, 3600}, q.Step) {
		return invalidHistory("step: %d seconds; must be 1, 60 or 3600", q.Step)
	}
	if points := (int64(q.End-q.From) + int64(q.Step) - 1) / int64(q.Step); points > maxHistoryPoints {
		return invalidHistory("from, end: %d points of %d seconds; must be at most %d: ask for a shorter time or a longer step", points, q.Step, maxHistoryPoints)
	}
	if q.Limit.Namespace == "" || q.Limit.Limit == "" {
		return invalidHistory("limit: %q has no namespace or no name", q.Limit)
	}
	return nil
}

func checkTimeRange(from, end history.Second) error {
	if from < 0 || end <= from {
		return invalidHistory("from, end: %d to %d; must be seconds since 1970, and the end after the beginning", from, end)
	}
	return nil
}

func invalidHistory(format string, args ...any) error {
	return &membership.Error{Kind: membership.Invalid, Text: "history: " + fmt.Sprintf(format, args...)}
}

// OwnerRange returns the range that stores a limit's history.
func OwnerRange(l quota.LimitName, ranges int) quota.RangeID {
	return shard.Of(quota.Key{LimitName: l}, ranges)
}
