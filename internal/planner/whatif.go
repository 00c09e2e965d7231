package planner

import (
	"context"
	"slices"
	"strings"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/apijson"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/history"
	planning "github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/quota"
)

// WhatIf implements quoratev1.RateServiceServer.
func (s *Planner) WhatIf(ctx context.Context, req *quoratev1.WhatIfRequest) (*quoratev1.WhatIfResponse, error) {
	name, err := s.pastLimit(req)
	if err != nil {
		return nil, err
	}
	now, err := s.plannedRule(name)
	if err != nil {
		return nil, err
	}
	next, err := changedRule(now, req)
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
	out := &quoratev1.WhatIfResponse{
		Outcome: outcomeProto(next, d.replay(next.Tiers())), Now: outcomeProto(now, d.replay(now.Tiers())),
		RefusedThen: totalOf(d.answer.Points).Refused().Tokens(), Basis: d.basis(), Points: d.course(next), Coverage: coverage(t, &d.answer),
	}
	out.Statements = d.statements(now, next, out.Outcome, out.Coverage)
	return out, nil
}

// changedRule returns the current rule with the request's changes to its first tier.
func changedRule(now *quota.Limit, req *quoratev1.WhatIfRequest) (*quota.Limit, error) {
	next := *now
	t := next.First()
	if req.Rate != "" {
		r, err := quota.ParseRate(req.Rate)
		if err != nil {
			return nil, apierr.Invalid("rate", "%s", strings.TrimPrefix(err.Error(), "rate "))
		}
		t.Rate = r
	}
	if req.Kind != quoratev1.Kind_KIND_UNSPECIFIED {
		t.Kind, t.Calendar = quota.Kind(req.Kind-1), quota.Calendar{}
		if !t.Kind.Periods() {
			return nil, apierr.Invalid("kind", "is %s; must be bucket, fixed, sliding or periodic, or absent for the active one", apijson.Word(req.Kind.Descriptor(), req.Kind.Number()))
		}
	}
	if t.Kind == quota.CalendarWindow {
		t.Rate.Per = t.Calendar.Unit.Nominal()
	}
	switch {
	case req.Burst != nil && t.Kind == quota.TokenBucket:
		t.Burst = *req.Burst
	case req.Burst != nil && req.Rate == "":
		t.Burst, t.Rate.Tokens = *req.Burst, *req.Burst
	case req.Burst != nil && *req.Burst != t.Rate.Tokens:
		return nil, apierr.Invalid("burst", "is %d, and the rate %s; for a window they are the same: omit the burst", *req.Burst, req.Rate)
	case t.Kind != quota.TokenBucket:
		t.Burst = t.Rate.Tokens
	}
	next.SetFirst(t)
	valid := next
	if ofAccounts(next.LimitName) { // no limit has this name
		valid.LimitName = quota.LimitName{Namespace: "accounts", Limit: "policy"}
	}
	if err := valid.Validate(); err != nil {
		return nil, apierr.Invalid("rate", "makes an invalid rule: %v", err)
	}
	return &next, nil
}

func outcomeProto(l *quota.Limit, o planning.Outcome) *quoratev1.WhatIfOutcome {
	return &quoratev1.WhatIfOutcome{
		Rule: apiproto.Limit(l), Attempted: o.Attempted.Tokens(), RefusedAtLeast: o.RefusedAtLeast.Tokens(), RefusedAtMost: (o.RefusedAtMost + quota.Token - 1).Tokens(),
		Exact: o.Exact(), Estimate: o.Estimate, Times: int64(o.Seconds),
		RefusedIfEven: o.RefusedIfEven.Tokens(), RefusedLikely: o.Likely.Tokens(),
	}
}

// course returns what the first tier would have refused over time.
func (d *demand) course(l *quota.Limit) []*quoratev1.WhatIfPoint {
	points := d.answer.Points
	if len(points) == 0 {
		return nil
	}
	first, step := points[0].Start, history.Second(d.step)
	times := (points[len(points)-1].Start-first)/step + 1
	step *= (times + maxWhatIf - 1) / maxWhatIf
	var out []*quoratev1.WhatIfPoint
	at := func(s history.Second) *quoratev1.WhatIfPoint {
		for i := history.Second(len(out)); i <= (s-first)/step; i++ {
			out = append(out, &quoratev1.WhatIfPoint{Start: secondProto(first + i*step), Seconds: int32(step)})
		}
		return out[(s-first)/step]
	}
	for i := range points {
		p := at(points[i].Start)
		p.Attempted += points[i].Attempted.Tokens()
		p.Refused += points[i].Refused().Tokens()
	}
	if d.many { // it is not known when each key was requested
		return out
	}
	t := l.First()
	least, most := make([]quota.Units, len(out)), make([]quota.Units, len(out))
	add := func(into []quota.Units, d planning.Demand, u quota.Units) {
		i := min(len(into)-1, int((d.At-first)/step))
		into[i] = into[i].Plus(u)
	}
	if d.step == 1 {
		planning.ReplayEach(&t, slices.Values(planning.Whole(points)), func(d planning.Demand, x, y quota.Units) { add(least, d, x); add(most, d, y) })
	} else {
		planning.ReplayEach(&t, planning.Seconds(points, planning.Apart), func(d planning.Demand, x, _ quota.Units) { add(least, d, x) })
		planning.ReplayEach(&t, planning.Seconds(points, planning.Together), func(d planning.Demand, _, y quota.Units) { add(most, d, y) })
	}
	if d.accounts > 0 { // at most if one account had all demand; at least nothing
		clear(least)
	}
	for i := range out {
		out[i].RefusedAtLeast, out[i].RefusedAtMost = min(least[i], most[i]).Tokens(), max(least[i], most[i]).Tokens()
	}
	return out
}
