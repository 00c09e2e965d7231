package planner

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/phrase"
	planning "github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/quota"
)

// Suggest implements quoratev1.RateServiceServer.
func (s *Planner) Suggest(ctx context.Context, req *quoratev1.SuggestRequest) (*quoratev1.SuggestResponse, error) {
	name, err := s.pastLimit(req)
	if err != nil {
		return nil, err
	}
	if req.RefusedPpm < 0 || req.RefusedPpm >= quota.Million {
		return nil, apierr.Invalid("refused_ppm", "is %d; must be 0 to 999999 parts per million", req.RefusedPpm)
	}
	now, err := s.plannedRule(name)
	if err != nil {
		return nil, err
	}
	t, err := s.timeRangeOf(req.From, req.To, hour)
	if err != nil {
		return nil, err
	}
	d, err := s.recorded(ctx, name, t)
	if err != nil {
		return nil, err
	}
	first, ok := planning.SuggestBy(now.First(), func(t *quota.Tier) bool {
		return ctx.Err() != nil || d.enough(d.replay([]quota.Tier{*t}), float64(req.RefusedPpm)/quota.Million)
	})
	if ctx.Err() != nil {
		return nil, apierr.From(ctx.Err())
	}
	next := *now
	next.SetFirst(first)
	out := &quoratev1.SuggestResponse{
		Outcome: outcomeProto(&next, d.replay(next.Tiers())), Now: outcomeProto(now, d.replay(now.Tiers())), Basis: d.basis(), Coverage: coverage(t, &d.answer),
	}
	switch {
	case out.Now.Attempted == 0:
		return nil, apierr.NotNow("%v had no demand in this time, so no rate can be suggested; choose a longer time", name)
	case !ok:
		return nil, apierr.NotNow("no rate refuses so little of the demand of %v; allow more refusals", name)
	}
	if len(next.More) > 0 {
		out.Statements = append(out.Statements, "the suggestion is for the first tier; the other tiers do not change, and may refuse more")
	}
	if d.many {
		out.Statements = append(out.Statements, fmt.Sprintf("the lowest rate with an estimate of at most %.3g%%; at most %s would have been refused", 100*float64(req.RefusedPpm)/quota.Million, phrase.Percent(out.Outcome.RefusedAtMost, out.Outcome.Attempted)))
	}
	out.Statements = append(out.Statements, d.statements(now, &next, out.Outcome, out.Coverage)...)
	return out, nil
}

// enough reports whether at most the given part is refused: by the best estimate for many keys or accounts,
// because their bounds are wide, otherwise even in the worst case.
func (d *demand) enough(o planning.Outcome, part float64) bool {
	refused := o.RefusedAtMost
	if d.many || d.accounts > 0 {
		refused = o.Likely
	}
	return float64(refused) <= part*float64(o.Attempted)
}
