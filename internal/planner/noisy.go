package planner

import (
	"context"
	"fmt"
	"slices"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds on noisy keys.
const (
	usualTimes = 10 // times the median
	maxTimes   = 1000
)

// Noisy implements quoratev1.RateServiceServer.
func (s *Planner) Noisy(ctx context.Context, req *quoratev1.NoisyRequest) (*quoratev1.NoisyResponse, error) {
	name, err := s.pastLimit(req)
	if err != nil {
		return nil, err
	}
	times, err := mostOf("times", req.Times, maxTimes, usualTimes)
	if err == nil && times < 2 {
		err = apierr.Invalid("times", "%d; must be 2 to %d, or 0 for %d", times, maxTimes, usualTimes)
	}
	if err != nil {
		return nil, err
	}
	t, err := s.timeRangeOf(req.From, req.To, day)
	if err != nil {
		return nil, err
	}
	return s.noisyIn(ctx, name, t, times)
}

func (s *Planner) noisyIn(ctx context.Context, name quota.LimitName, t timeRange, times int) (*quoratev1.NoisyResponse, error) {
	keys, err := s.node.HistoryKeys(ctx, history.KeysQuery{Limit: name, From: t.from, End: t.end, Top: apiproto.MaxTop})
	if err != nil {
		return nil, apierr.From(err)
	}
	a, err := s.node.History(ctx, history.Query{Limit: name, From: t.from, End: t.end, Step: s.stepFor(t, usualPoints)})
	if err != nil {
		return nil, apierr.From(err)
	}
	if s.neverWas(name, a.Points) {
		return nil, s.noLimit(name)
	}
	total := totalOf(a.Points)
	out := &quoratev1.NoisyResponse{Known: int32(len(keys.Keys)), Use: pointProto(total), Coverage: coverage(t, &a)}
	if l := s.ruleOf(name); l != nil {
		out.Parent = l.Parent
	}
	median := medianOf(keys.Keys)
	out.Median = median.Tokens()
	for i := range keys.Keys {
		k := &keys.Keys[i]
		if len(keys.Keys) > 2 && median > 0 && float64(k.Attempted) >= float64(median)*float64(times) {
			out.Keys = append(out.Keys, noisyKey(k, total, median, out.Parent))
		}
	}
	switch {
	case len(keys.Keys) < 3:
		out.Statements = append(out.Statements, []string{"no key is", "1 key is", "2 keys are"}[len(keys.Keys)]+" known: three are needed to find a noisy one")
	case len(out.Keys) == 0:
		out.Statements = append(out.Statements, fmt.Sprintf("no key had %d times the median demand of %d tokens", times, out.Median))
	}
	if keys.Rest > 0 {
		out.Statements = append(out.Statements, fmt.Sprintf("the median is of the %d busiest keys; each other key requested at most %d tokens", len(keys.Keys), keys.Rest.Tokens()))
	}
	out.Statements = append(out.Statements, coverageStatements(out.Coverage)...)
	return out, nil
}

// medianOf returns the median demand of keys; of an even number it returns the lower one.
func medianOf(keys []history.KeyTotal) quota.Units {
	if len(keys) == 0 {
		return 0
	}
	all := make([]quota.Units, len(keys))
	for i := range keys {
		all[i] = keys[i].Attempted
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

func noisyKey(k *history.KeyTotal, total *history.Point, median quota.Units, parent string) *quoratev1.NoisyKey {
	out := &quoratev1.NoisyKey{Use: keyUse(k), TimesMedian: float64(k.Attempted) / float64(median)}
	refused := max(0, k.Attempted-k.Admitted)
	if total.Attempted > 0 {
		out.DemandPart = min(1, float64(k.Attempted)/float64(total.Attempted))
	}
	if total.Refused() > 0 {
		out.RefusedPart = min(1, float64(refused)/float64(total.Refused()))
	}
	others := max(0, total.Refused()-refused).Tokens()
	out.Statement = fmt.Sprintf("requested %.0f%% of all demand, %.0f times the median, and was refused %d tokens", 100*out.DemandPart, out.TimesMedian, out.Use.Refused)
	switch {
	case parent == "":
		out.Statement += "; it took nothing from other keys, which have separate buckets"
	case others == 0:
		out.Statement += "; it shares " + parent + " with the others, which had no refusals"
	default:
		part := 0.0
		if total.Admitted > 0 {
			part = 100 * float64(k.Admitted) / float64(total.Admitted)
		}
		out.Statement += fmt.Sprintf("; it got %.0f%% of the admitted tokens of %s, which all share, while the others had %d tokens refused", part, parent, others)
	}
	return out
}
