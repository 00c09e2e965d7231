package planner

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/history"
	planning "github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/quota"
)

// fullest holds what is known about a limit's busiest keys.
type fullest struct {
	key  history.KeyTotal // over the whole time range
	peak history.KeyPeak  // in one minute or hour; possibly another key
	many bool             // there are other keys
}

// busiest reads what is known about a limit's busiest keys.
func (s *Planner) busiest(ctx context.Context, name quota.LimitName, t timeRange) (k fullest, err error) {
	a, err := s.node.HistoryKeys(ctx, history.KeysQuery{Limit: name, From: t.from, End: t.end, Top: 2})
	if err != nil && !apierr.IsNoLeader(err) { // as in recorded
		return k, apierr.From(err)
	}
	if len(a.Keys) > 0 {
		k.key = a.Keys[0]
	}
	k.peak, k.many = a.Peak, len(a.Keys) > 1 || len(a.Keys) == 1 && a.Rest > 0
	return k, nil
}

// Headroom implements quoratev1.RateServiceServer.
func (s *Planner) Headroom(ctx context.Context, req *quoratev1.HeadroomRequest) (*quoratev1.HeadroomResponse, error) {
	out, _, err := s.headroomAndUse(ctx, req)
	return out, err
}

// headroomAndUse is Headroom, and also returns all limits that were used, even those not in the response.
func (s *Planner) headroomAndUse(ctx context.Context, req *quoratev1.HeadroomRequest) (*quoratev1.HeadroomResponse, []history.UsedLimit, error) {
	top, err := mostOf("top", req.Top, maxHeadroom, usualHeadroom)
	if err != nil {
		return nil, nil, err
	}
	if req.Limit != "" {
		if _, err := s.pastLimit(req); err != nil {
			return nil, nil, err
		}
	}
	list, a, t, err := s.used(ctx, req.Namespace, req.From, req.To, week)
	if err != nil {
		return nil, nil, err
	}
	if req.Limit != "" {
		list = slices.DeleteFunc(list, func(u history.UsedLimit) bool { return u.Limit.Limit != req.Limit })
	}
	out := &quoratev1.HeadroomResponse{Total: int32(len(list)), Coverage: usedCoverage(t, &a, list)}
	for i := range list[:min(len(list), maxHeadroom)] {
		h, err := s.headroomOf(ctx, &list[i], t)
		if err != nil {
			return nil, nil, err
		}
		out.Limits = append(out.Limits, h)
	}
	slices.SortStableFunc(out.Limits, func(x, y *quoratev1.LimitHeadroom) int { return cmp.Compare(y.Saturation, x.Saturation) })
	out.Limits = out.Limits[:min(top, len(out.Limits))]
	return out, list, nil
}

func (s *Planner) headroomOf(ctx context.Context, u *history.UsedLimit, t timeRange) (*quoratev1.LimitHeadroom, error) {
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
		out.Statement = "this limit was removed; " + refusedText(out)
		return out, nil
	}
	out.Rule, out.Shadow = apiproto.Limit(l), passesAll(l)
	k, err := s.busiest(ctx, u.Limit, t)
	if err != nil {
		return nil, err
	}
	out.ManyKeys, out.BusiestKey = k.many, k.key.Key
	if err := s.saturate(ctx, out, l, u, &k, t); err != nil {
		return nil, err
	}
	if k.key.Key == "" && u.Attempted > 0 {
		out.Statement += "; its keys are not recorded, so this assumes one key"
	}
	return out, nil
}

// passesAll reports whether the limit's refusals are not enforced.
func passesAll(l *quota.Limit) bool { return l != nil && l.Enforcement != quota.Enforce }

// saturate compares the demand with what the rule admits, and sets the statement.
func (s *Planner) saturate(ctx context.Context, out *quoratev1.LimitHeadroom, l *quota.Limit, u *history.UsedLimit, k *fullest, t timeRange) error {
	text := ""
	switch {
	case out.Refill == 0:
		text = "it does not refill over time"
	case k.many:
		text = ofKeys(out, l, u, k)
		if u.Refused() > 0 && out.Saturation < 1 { // some key was full for longer than a minute
			fuller, err := s.ofPeriods(ctx, out, l, u, t)
			if err != nil {
				return err
			}
			text = cmp.Or(fuller, text)
		}
	default:
		step := s.stepFor(t, usualPoints)
		a, err := s.node.History(ctx, history.Query{Limit: u.Limit, From: t.from, End: t.end, Step: step})
		switch {
		case err != nil:
			return apierr.From(err)
		case slow(l):
			text = ofWindows(out, l, u, a.Points, step)
		default:
			text = ofSeconds(out, u, a.Points)
		}
	}
	if out.RefusedPart > fewRefused && out.Saturation < 1 { // it was full, even if the recorded keys and points do not show it
		out.Saturation = 1
		text = "it was full at times: refused requests came in bursts shorter than a second, cost more than the burst, had keys with overrides, or were refused without need; " + text
	}
	if out.Refill > 0 {
		out.Headroom = max(0, 1-out.Saturation)
	}
	out.Statement = text + "; " + refusedText(out)
	return nil
}

// ofKeys uses the most requested key of any minute, or of any hour where only hours are kept. It uses the
// busiest key of the whole time range if that is fuller, as with windows of a day.
func ofKeys(out *quoratev1.LimitHeadroom, l *quota.Limit, u *history.UsedLimit, k *fullest) string {
	out.Saturation = inTokens(k.key.Attempted) / capacity(l, max(1, u.Seconds))
	peak := 0.0
	if k.peak.Seconds > 0 {
		peak = inTokens(k.peak.Attempted) / capacity(l, int(k.peak.Seconds))
	}
	if peak <= out.Saturation {
		return fmt.Sprintf("the busiest key %q requested %.0f%% of its limit", apierr.Clip(out.BusiestKey), 100*out.Saturation)
	}
	part := "minute"
	if k.peak.Seconds >= 3600 {
		part = "hour"
	}
	out.BusiestKey, out.Saturation = k.peak.Key, peak
	return fmt.Sprintf("key %q requested %.0f%% of its limit in the busiest %s", apierr.Clip(out.BusiestKey), 100*peak, part)
}

// maxPeriods bounds the periods of a tier that ofPeriods examines one by one: each takes a read of every range.
const maxPeriods = 5

// ofPeriods raises out.Saturation to that of the busiest key in one period of the limit, such as a day. It examines
// the periods with the most refusals until one is full. It returns no text if the saturation did not rise.
func (s *Planner) ofPeriods(ctx context.Context, out *quoratev1.LimitHeadroom, l *quota.Limit, u *history.UsedLimit, t timeRange) (string, error) {
	step := s.stepFor(t, usualPoints)
	points, err := s.node.History(ctx, history.Query{Limit: u.Limit, From: t.from, End: t.end, Step: step})
	if err != nil {
		return "", apierr.From(err)
	}
	text := ""
	for _, tier := range l.Tiers() {
		span := history.Second(tier.Rate.Per.Seconds())
		if fill := history.Second(min(float64(tier.Burst)/max(out.Refill, 1e-9), 1e9)); !tier.Kind.Windowed() {
			span = max(span, fill)
		}
		if span <= 60 || span >= t.end-t.from {
			continue
		}
		if n := history.Second(step); span < n { // points cannot resolve shorter periods
			span = (n + span - 1) / span * span
		}
		for _, from := range refusing(points.Points, span) {
			a, err := s.node.HistoryKeys(ctx, history.KeysQuery{Limit: u.Limit, From: max(from, t.from), End: min(from+span, t.end), Top: 1})
			if err != nil && !apierr.IsNoLeader(err) {
				return "", apierr.From(err)
			}
			if len(a.Keys) == 0 {
				continue
			}
			if full := inTokens(a.Keys[0].Attempted) / max(1, passes(&tier, int(span))); full > out.Saturation {
				out.Saturation, out.BusiestKey = full, a.Keys[0].Key
				text = fmt.Sprintf("key %q requested %.0f%% of its limit in %v", apierr.Clip(out.BusiestKey), 100*full, time.Duration(span)*time.Second)
			}
			if out.Saturation >= 1 {
				return text, nil
			}
		}
	}
	return text, nil
}

// refusing returns the starts of periods with refusals, those with the most first, at most maxPeriods.
func refusing(points []history.Point, span history.Second) []history.Second {
	refused := map[history.Second]quota.Units{}
	for i := range points {
		p := &points[i]
		if p.Refused() > 0 {
			from := p.Start - p.Start%span
			refused[from] = refused[from].Plus(p.Refused())
		}
	}
	out := slices.SortedFunc(maps.Keys(refused), func(a, b history.Second) int {
		return cmp.Or(cmp.Compare(refused[b], refused[a]), cmp.Compare(b, a))
	})
	return out[:min(maxPeriods, len(out))]
}

// fewRefused is the largest refused part of the demand at which a limit may still be reported as less than full. It
// matches the busiest 1% of seconds that a bucket's saturation leaves out.
const fewRefused = .01

// ofWindows uses the fullest window. If points do not tell windows apart, or windows slide, it uses
// consecutive points of a window's length, or a single point that is longer.
func ofWindows(out *quoratev1.LimitHeadroom, l *quota.Limit, u *history.UsedLimit, points []history.Point, step int) string {
	for _, t := range l.Tiers() {
		most, known := planning.Fullest(&t, points)
		span := step * max(1, int(t.Rate.Per.Seconds())/step)
		if !known {
			most = mostOfRun(points, history.Second(span))
		}
		out.Saturation = max(out.Saturation, inTokens(most)/max(1, passes(&t, span)))
	}
	return fmt.Sprintf("demand in its fullest window was %.0f%% of the limit, on average %.0f%%", 100*out.Saturation, 100*inTokens(u.Mean)/out.Refill)
}

// mostOfRun returns the highest total of points within span seconds.
func mostOfRun(points []history.Point, span history.Second) (most quota.Units) {
	sum, first := quota.Units(0), 0
	for i := range points {
		for sum = sum.Plus(points[i].Attempted); points[first].Start+span <= points[i].Start; first++ {
			sum -= points[first].Attempted
		}
		most = max(most, sum)
	}
	return most
}

// ofSeconds uses the demand that 99 of 100 busy seconds did not exceed. For seconds that are not kept it is
// as exact as the percentiles of points are.
func ofSeconds(out *quoratev1.LimitHeadroom, u *history.UsedLimit, points []history.Point) string {
	out.IdlePart, u.P99 = busySeconds(points)
	out.Saturation, out.PeakSaturation = inTokens(u.P99)/out.Refill, inTokens(u.Peak)/out.Refill
	if out.IdlePart < .005 {
		return fmt.Sprintf("in 99 of 100 seconds, demand was at most %.0f%% of the refill; in the highest, %.0f%%", 100*out.Saturation, 100*out.PeakSaturation)
	}
	return fmt.Sprintf("in 99 of 100 busy seconds, demand was at most %.0f%% of the refill; in the highest, %.0f%%; idle %.4g%% of the time", 100*out.Saturation, 100*out.PeakSaturation, 100*out.IdlePart)
}

// busySeconds treats a point as four sizes of seconds: half of them as its median, and so on. It returns
// the idle part of the time, and the 99th percentile of the others.
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

func refusedText(h *quoratev1.LimitHeadroom) string {
	if h.Shadow {
		return fmt.Sprintf("%.3g%% would have been refused, but passed: the limit is not enforced", 100*h.RefusedPart)
	}
	return fmt.Sprintf("%.3g%% was refused", 100*h.RefusedPart)
}
