package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
)

// busiest is what is known of a limit's busiest key.
func (s *service) busiest(ctx context.Context, name quota.LimitName, t stretch) (key history.KeyTotal, many bool, f *fault) {
	a, err := s.past.HistoryKeys(ctx, history.KeysQuery{Limit: name, From: t.from, End: t.end, Top: 2})
	if err != nil && !IsNoLeader(err) { // as in recorded
		return key, false, fromError(err)
	}
	if len(a.Keys) > 0 {
		key = a.Keys[0]
	}
	return key, len(a.Keys) > 1 || len(a.Keys) == 1 && a.Rest > 0, nil
}

func (s *service) headroom(ctx context.Context, req *quoratev1.HeadroomRequest) (*quoratev1.HeadroomResponse, *fault) {
	top, f := mostOf("top", req.Top, maxHeadroom, usualHeadroom)
	if f != nil {
		return nil, f
	}
	if req.Limit != "" {
		if _, f := s.pastLimit(req); f != nil {
			return nil, f
		}
	}
	list, a, t, f := s.used(ctx, req.Namespace, req.From, req.To, week)
	if f != nil {
		return nil, f
	}
	if req.Limit != "" {
		list = slices.DeleteFunc(list, func(u history.UsedLimit) bool { return u.Limit.Limit != req.Limit })
	}
	out := &quoratev1.HeadroomResponse{Total: int32(len(list)), Coverage: usedCoverage(t, &a, list)}
	for i := range list[:min(len(list), maxHeadroom)] {
		h, f := s.headroomOf(ctx, &list[i], t)
		if f != nil {
			return nil, f
		}
		out.Limits = append(out.Limits, h)
	}
	slices.SortStableFunc(out.Limits, func(x, y *quoratev1.LimitHeadroom) int { return cmp.Compare(y.Saturation, x.Saturation) })
	out.Limits = out.Limits[:min(top, len(out.Limits))]
	return out, nil
}

func (s *service) headroomOf(ctx context.Context, u *history.UsedLimit, t stretch) (*quoratev1.LimitHeadroom, *fault) {
	out := &quoratev1.LimitHeadroom{Namespace: u.Limit.Namespace, Limit: u.Limit.Limit, Use: pointProto(&u.Point)}
	if u.Attempted > 0 {
		out.RefusedPart = float64(u.Refused()) / float64(u.Attempted)
	}
	l := s.ruleOf(u.Limit)
	if ofAccounts(u.Limit) {
		accountHeadroom(out, l, u)
		return out, nil
	}
	out.Refill = refill(l)
	if l == nil {
		out.Statement = "there is no such limit any more; " + refusedText(out)
		return out, nil
	}
	out.Rule, out.Shadow = LimitProto(l), l.Enforcement != quota.Enforce
	key, many, f := s.busiest(ctx, u.Limit, t)
	if f != nil {
		return nil, f
	}
	out.ManyKeys, out.BusiestKey = many, key.Key
	if out.Refill > 0 && !many && !slow(l) {
		if out.IdlePart, u.P99, f = s.busy(ctx, u, t); f != nil {
			return nil, f
		}
	}
	if out.Refill > 0 {
		saturate(out, l, u, &key)
	}
	out.Statement = headroomText(out, l)
	if key.Key == "" && u.Attempted > 0 {
		out.Statement += "; its keys are not recorded, so all demand was taken for one key's"
	}
	return out, nil
}

// busy returns the part of the time in which nothing was asked for, and the 99th percentile of the
// other seconds. Of seconds that are not kept it is as exact as their percentiles are.
func (s *service) busy(ctx context.Context, u *history.UsedLimit, t stretch) (idle float64, p99 quota.Units, f *fault) {
	a, err := s.past.History(ctx, history.Query{Limit: u.Limit, From: t.from, End: t.end, Step: s.stepFor(t, usualPoints)})
	if err != nil {
		return 0, 0, fromError(err)
	}
	idle, p99 = busySeconds(a.Points)
	return idle, p99, nil
}

// busySeconds takes a point for four sizes of seconds: half of them as its median, and so on.
func busySeconds(points []history.Point) (idle float64, p99 quota.Units) {
	type size struct {
		u       quota.Units
		seconds float64
	}
	var sizes []size
	silent, asked := 0.0, 0.0
	for i := range points {
		p := &points[i]
		for _, one := range []size{{p.P50, .5}, {p.P95, .45}, {p.P99, .04}, {p.Peak, .01}} {
			if one.seconds *= float64(p.Seconds); one.u == 0 {
				silent += one.seconds
				continue
			}
			asked += one.seconds
			sizes = append(sizes, one)
		}
	}
	if asked == 0 {
		return 1, 0
	}
	slices.SortFunc(sizes, func(a, b size) int { return cmp.Compare(b.u, a.u) })
	above := 0.0
	for _, one := range sizes {
		if p99, above = one.u, above+one.seconds; above > asked/100 {
			break
		}
	}
	return silent / (silent + asked), p99
}

// saturate compares demand with what is refilled.
func saturate(out *quoratev1.LimitHeadroom, l *quota.Limit, u *history.UsedLimit, key *history.KeyTotal) {
	switch {
	case out.ManyKeys:
		out.Saturation = inTokens(key.Attempted) / float64(max(1, u.Seconds)) / out.Refill
	case slow(l):
		out.Saturation = inTokens(u.Mean) / out.Refill
	default:
		out.Saturation, out.PeakSaturation = inTokens(u.P99)/out.Refill, inTokens(u.Peak)/out.Refill
	}
	out.Headroom = max(0, 1-out.Saturation)
}

func headroomText(h *quoratev1.LimitHeadroom, l *quota.Limit) string {
	text := ""
	switch {
	case h.Refill == 0:
		text = "it refills nothing by the second"
	case h.ManyKeys:
		text = fmt.Sprintf("its busiest key %q was asked for %.0f%% of its refill on the average", clip(h.BusiestKey), 100*h.Saturation)
	case slow(l):
		text = fmt.Sprintf("the mean demand was %.0f%% of what its windows let pass", 100*h.Saturation)
	default:
		text = fmt.Sprintf("99 of 100 seconds asked for at most %.0f%% of the refill, the highest for %.0f%%", 100*h.Saturation, 100*h.PeakSaturation)
		if h.IdlePart >= .005 {
			text = fmt.Sprintf("99 of 100 busy seconds asked for at most %.0f%% of the refill, the highest for %.0f%%; idle %.4g%% of the time", 100*h.Saturation, 100*h.PeakSaturation, 100*h.IdlePart)
		}
	}
	return text + "; " + refusedText(h)
}

func refusedText(h *quoratev1.LimitHeadroom) string {
	if h.Shadow {
		return fmt.Sprintf("%.3g%% would have been refused, and all passed: it is not enforced", 100*h.RefusedPart)
	}
	return fmt.Sprintf("%.3g%% was refused", 100*h.RefusedPart)
}
