package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/history"
	planning "github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds of planning.
const (
	maxHeadroom   = 200 // limits in an answer: each is asked for its busiest key
	plannedKeys   = 200 // keys of a limit that are replayed one by one
	maxWhatIf     = 240 // points of a course
	usualHeadroom = 20
)

// ruleOf returns the rule in force of a limit, nil if there is none. A template's and a
// default's limit is what they make of the name.
func (s *service) ruleOf(name quota.LimitName) *quota.Limit {
	limits := s.node.Limits()
	if limits == nil {
		return nil
	}
	if l, ok := limits.Find(name); ok {
		return l
	}
	l, _ := limits.Resolve(name, quota.WholeKey)
	return l
}

// plannedRule returns the rule in force of a limit whose demand is to be replayed.
func (s *service) plannedRule(name quota.LimitName) (*quota.Limit, *fault) {
	l := s.ruleOf(name)
	switch {
	case l == nil:
		return nil, s.noLimit(name)
	case l.Class != quota.Counted:
		return nil, badField("limit", "%v counts nothing: its class is %v; choose one that counts", name, l.Class)
	case !planning.Replayable(&quota.Tier{Kind: l.Kind}):
		return nil, badField("limit", "%v limits what is in flight, which demand by the second does not tell; choose one with a rate", name)
	}
	return l, nil
}

// refill is what a limit refills in a second for one key: of several tiers, the least.
func refill(l *quota.Limit) float64 {
	if l == nil || l.Class != quota.Counted || l.Kind == quota.Concurrency {
		return 0
	}
	least := -1.0
	for _, t := range l.Tiers() {
		if r := float64(t.Rate.Tokens) / max(t.Rate.Per.Seconds(), 1e-9); least < 0 || r < least {
			least = r
		}
	}
	return least
}

// slow reports whether a limit looks at longer times than seconds: then what is asked for in
// one second says nothing of how full it is.
func slow(l *quota.Limit) bool {
	return slices.ContainsFunc(l.Tiers(), func(t quota.Tier) bool { return t.Kind.Windowed() && t.Rate.Per > time.Second })
}

// demand is what is recorded of a limit in a stretch.
type demand struct {
	stretch
	answer history.Answer
	step   int
	// Of a limit that is counted for many keys.
	keys    [][]history.KeyTotal // by part of the stretch
	rests   []quota.Units        // the most that a key which is not in them had, by part
	part    int                  // seconds of a part
	many    bool
	unknown bool // nobody knows of keys
}

// recorded reads the demand of a limit.
func (s *service) recorded(ctx context.Context, name quota.LimitName, t stretch) (*demand, *fault) {
	d := &demand{stretch: t, step: s.stepFor(t, MaxPoints)}
	var err error
	if d.answer, err = s.past.History(ctx, history.Query{Limit: name, From: t.from, End: t.end, Step: d.step}); err != nil {
		return nil, fromError(err)
	}
	all, err := s.past.HistoryKeys(ctx, history.KeysQuery{Limit: name, From: t.from, End: t.end, Top: 2})
	if err != nil && !IsNoLeader(err) { // without the keys there is something to say all the same
		return nil, fromError(err)
	}
	d.unknown = len(all.Keys) == 0
	d.many = len(all.Keys) > 1 || all.Rest > 0 && !d.unknown
	if !d.many {
		return d, nil
	}
	return d, s.recordedKeys(ctx, name, d)
}

// recordedKeys reads what the busiest keys were asked for, in at most maxKeyPoints parts.
func (s *service) recordedKeys(ctx context.Context, name quota.LimitName, d *demand) *fault {
	end := min(d.end, d.answer.AsOf)
	d.part = int(max(1, (int64(end-d.from)+60*maxKeyPoints-1)/(60*maxKeyPoints))) * 60
	for at := d.from - d.from%60; at < end; at += history.Second(d.part) {
		a, err := s.past.HistoryKeys(ctx, history.KeysQuery{Limit: name, From: at, End: at + history.Second(d.part), Top: plannedKeys})
		if err != nil {
			return fromError(err)
		}
		d.keys, d.rests = append(d.keys, a.Keys), append(d.rests, a.Rest)
	}
	return nil
}

// basis is what answers on this demand are made of.
func (d *demand) basis() quoratev1.Basis {
	switch {
	case d.many:
		return quoratev1.Basis_BASIS_KEYS
	case d.step == 1:
		return quoratev1.Basis_BASIS_SECONDS
	case d.step == 60:
		return quoratev1.Basis_BASIS_MINUTES
	}
	return quoratev1.Basis_BASIS_HOURS
}

// replay returns what tiers would have done with the demand.
func (d *demand) replay(tiers []quota.Tier) planning.Outcome {
	switch {
	case d.many:
		return d.replayKeys(tiers)
	case d.step == 1:
		return planning.ReplayAll(tiers, planning.Whole(d.answer.Points))
	}
	return planning.ReplayPoints(tiers, d.answer.Points)
}

// replayKeys replays each of the busiest keys, of which it is known how much it was asked for in
// each part: at least, and at most, where a list did not have it. The others together are what
// these have left of the sum.
func (d *demand) replayKeys(tiers []quota.Tier) planning.Outcome {
	listed := quota.Units(0)
	least, most := map[string][]planning.Demand{}, map[string][]planning.Demand{}
	for _, keys := range d.keys {
		for _, k := range keys {
			listed = listed.Plus(k.Attempted)
			least[k.Key], most[k.Key] = nil, nil
		}
	}
	for i, keys := range d.keys {
		at := d.from - d.from%60 + history.Second(i*d.part)
		have := make(map[string]*history.KeyTotal, len(keys))
		for j := range keys {
			have[keys[j].Key] = &keys[j]
		}
		for key := range least {
			low, high := quota.Units(0), d.rests[i]
			if k := have[key]; k != nil {
				low, high = k.Attempted, k.Attempted.Plus(k.Error)
			}
			least[key] = withDemand(least[key], at, low, d.part)
			most[key] = withDemand(most[key], at, high, d.part)
		}
	}
	var out planning.Outcome
	for key := range least {
		o, high := planning.ReplayAll(tiers, least[key]), planning.ReplayAll(tiers, most[key])
		o.RefusedAtMost, o.Seconds = max(o.RefusedAtMost, high.RefusedAtMost), max(o.Seconds, high.Seconds)
		out.Add(&o)
	}
	all := quota.Units(0)
	for i := range d.answer.Points {
		all = all.Plus(d.answer.Points[i].Attempted)
	}
	others := max(0, all-listed)
	out.Attempted = out.Attempted.Plus(others)
	if rest := slices.Max(append(slices.Clone(d.rests), 0)); others > 0 && !harmless(tiers, rest, d.part) {
		out.RefusedAtMost = out.RefusedAtMost.Plus(others)
	}
	out.RefusedAtMost = min(out.RefusedAtMost, out.Attempted)
	return out
}

func withDemand(list []planning.Demand, at history.Second, u quota.Units, seconds int) []planning.Demand {
	if u <= 0 {
		return list
	}
	return append(list, planning.Demand{At: at, Attempted: u, Seconds: seconds})
}

// harmless reports whether a key that is asked for no more than so much in each part is never
// refused anything.
func harmless(tiers []quota.Tier, most quota.Units, part int) bool {
	for i := range tiers {
		t := &tiers[i]
		per := int64(t.Rate.Per / time.Second)
		if t.Kind == quota.TokenBucket {
			if 2*most > t.BurstUnits() || float64(most) > inUnits(t.Rate)*float64(part) {
				return false
			}
			continue
		}
		if parts := per/int64(part) + 2; most > t.BurstUnits()/quota.Units(parts) {
			return false
		}
	}
	return true
}

// inUnits is what a rate refills in a second.
func inUnits(r quota.Rate) float64 {
	return float64(r.Tokens) * float64(quota.Token) / max(r.Per.Seconds(), 1e-9)
}

func (s *service) whatIf(ctx context.Context, req *quoratev1.WhatIfRequest) (*quoratev1.WhatIfResponse, *fault) {
	name, f := s.pastLimit(req)
	if f != nil {
		return nil, f
	}
	now, f := s.plannedRule(name)
	if f != nil {
		return nil, f
	}
	next, f := changedRule(now, req)
	if f != nil {
		return nil, f
	}
	t, f := s.stretchOf(req.From, req.To, hour)
	if f != nil {
		return nil, f
	}
	d, f := s.recorded(ctx, name, t)
	if f != nil {
		return nil, f
	}
	out := &quoratev1.WhatIfResponse{
		Outcome: outcomeProto(next, d.replay(next.Tiers())), Now: outcomeProto(now, d.replay(now.Tiers())),
		RefusedThen: totalOf(d.answer.Points).Refused().Tokens(), Basis: d.basis(), Points: d.course(next), Coverage: coverage(t, &d.answer),
	}
	out.Statements = d.statements(now, next, out.Outcome, out.Coverage)
	return out, nil
}

// changedRule is the rule in force with what a request changes of its first tier.
func changedRule(now *quota.Limit, req *quoratev1.WhatIfRequest) (*quota.Limit, *fault) {
	next := *now
	t := next.First()
	if req.Rate != "" {
		r, err := quota.ParseRate(req.Rate)
		if err != nil {
			return nil, badField("rate", "%s", strings.TrimPrefix(err.Error(), "rate "))
		}
		t.Rate = r
	}
	switch req.Kind {
	case quoratev1.Kind_KIND_UNSPECIFIED:
	case quoratev1.Kind_KIND_BUCKET, quoratev1.Kind_KIND_FIXED, quoratev1.Kind_KIND_SLIDING, quoratev1.Kind_KIND_PERIODIC:
		t.Kind, t.Calendar = quota.Kind(req.Kind-1), quota.Calendar{}
	default:
		return nil, badField("kind", "is %s; must be bucket, fixed, sliding or periodic, or absent for the one in force", enumWord(req.Kind.Descriptor(), req.Kind.Number()))
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
		return nil, badField("burst", "is %d, and the rate %s; of a window they are the same: leave the burst out", *req.Burst, req.Rate)
	case t.Kind != quota.TokenBucket:
		t.Burst = t.Rate.Tokens
	}
	next.SetFirst(t)
	if err := next.Validate(); err != nil {
		return nil, badField("rate", "makes a rule that cannot be: %v", err)
	}
	return &next, nil
}

func outcomeProto(l *quota.Limit, o planning.Outcome) *quoratev1.WhatIfOutcome {
	return &quoratev1.WhatIfOutcome{
		Rule: LimitProto(l), Attempted: o.Attempted.Tokens(), RefusedAtLeast: o.RefusedAtLeast.Tokens(), RefusedAtMost: (o.RefusedAtMost + quota.Token - 1).Tokens(),
		Exact: o.Exact(), Estimate: o.Estimate, Times: int64(o.Seconds),
		RefusedIfEven: o.RefusedIfEven.Tokens(),
	}
}

// course is what the first tier would have refused over time.
func (d *demand) course(l *quota.Limit) []*quoratev1.WhatIfPoint {
	points := d.answer.Points
	if d.many || len(points) == 0 {
		return nil
	}
	step := history.Second((len(points)+maxWhatIf-1)/maxWhatIf) * history.Second(d.step)
	first := points[0].Start
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
	t := l.First()
	least, most := make([]quota.Units, len(out)), make([]quota.Units, len(out))
	add := func(into []quota.Units, d *planning.Demand, u quota.Units) {
		i := min(len(into)-1, int((d.At-first)/step))
		into[i] = into[i].Plus(u)
	}
	if d.step == 1 {
		planning.ReplayEach(&t, planning.Whole(points), func(d *planning.Demand, x, y quota.Units) { add(least, d, x); add(most, d, y) })
	} else {
		planning.ReplayEach(&t, planning.Seconds(points, planning.Apart), func(d *planning.Demand, x, _ quota.Units) { add(least, d, x) })
		planning.ReplayEach(&t, planning.Seconds(points, planning.Together), func(d *planning.Demand, _, y quota.Units) { add(most, d, y) })
	}
	for i := range out {
		out[i].RefusedAtLeast, out[i].RefusedAtMost = min(least[i], most[i]).Tokens(), max(least[i], most[i]).Tokens()
	}
	return out
}

// statements say what an answer rests on.
func (d *demand) statements(now, next *quota.Limit, o *quoratev1.WhatIfOutcome, c *quoratev1.Coverage) []string {
	out := []string{d.sure(o), d.source()}
	if d.unknown && o.Attempted > 0 {
		out = append(out, "which keys it was counted for is not recorded: all demand was taken to be of one key, so a limit with many keys refuses less than this")
	}
	if s := incomplete(c); s != "" {
		out = append(out, s)
	}
	if now.Enforcement == quota.Shadow {
		out = append(out, "the limit is in shadow: nothing was refused; refused_then is what it would have refused")
	}
	if next.Parent != "" {
		out = append(out, "its parent "+next.Parent+" is not replayed: what that refuses comes on top")
	}
	return append(out, "requests are taken to ask for one token each; of larger ones up to one more is refused in each second in which something is")
}

// sure says how sure an outcome is.
func (d *demand) sure(o *quoratev1.WhatIfOutcome) string {
	switch {
	case o.Attempted == 0:
		return "nothing was asked for in this time, as far as is known"
	case o.Exact:
		return fmt.Sprintf("exact: %d of %d tokens would have been refused (%s)", o.RefusedAtMost, o.Attempted, partText(o.RefusedAtMost, o.Attempted))
	}
	word := "between"
	if o.Estimate {
		word = "an estimate: between about"
	}
	return fmt.Sprintf("%s %d and %d of %d tokens would have been refused (%s to %s); %d if they came evenly", word, o.RefusedAtLeast, o.RefusedAtMost, o.Attempted,
		partText(o.RefusedAtLeast, o.Attempted), partText(o.RefusedAtMost, o.Attempted), o.RefusedIfEven)
}

func partText(part, of int64) string {
	if of == 0 {
		return "0%"
	}
	return fmt.Sprintf("%.3g%%", 100*float64(part)/float64(of))
}

// source says what demand was looked at.
func (d *demand) source() string {
	switch d.basis() {
	case quoratev1.Basis_BASIS_KEYS:
		return fmt.Sprintf("from what up to %d keys were asked for in each %v, wherever in it; of other keys only the sum, and the most of one, are known", plannedKeys, time.Duration(d.part)*time.Second)
	case quoratev1.Basis_BASIS_SECONDS:
		return "from the demand of every second"
	case quoratev1.Basis_BASIS_MINUTES:
		return "from the demand of every minute and its peak second: seconds are kept for an hour"
	}
	return "from the demand of every hour and its peak second: minutes are kept for 30 days"
}

// incomplete says who is missing, and since when; empty when nothing is.
func incomplete(c *quoratev1.Coverage) string {
	if c.RangesCovered >= c.RangesTotal && c.SecondsComplete >= c.SecondsTotal && c.SecondsTotal > 0 {
		return ""
	}
	text := statement(c)
	if len(c.Missing) > 0 {
		text += "; missing " + strings.Join(c.Missing, ", ")
		if c.MissingSince != nil {
			text += " from " + c.MissingSince.AsTime().Format("15:04:05 on 2006-01-02")
		}
	}
	return text
}

func (s *service) suggest(ctx context.Context, req *quoratev1.SuggestRequest) (*quoratev1.SuggestResponse, *fault) {
	name, f := s.pastLimit(req)
	if f != nil {
		return nil, f
	}
	if req.RefusedPpm < 0 || req.RefusedPpm >= quota.Million {
		return nil, badField("refused_ppm", "is %d; must be 0 to 999999 parts per million", req.RefusedPpm)
	}
	now, f := s.plannedRule(name)
	if f != nil {
		return nil, f
	}
	t, f := s.stretchOf(req.From, req.To, hour)
	if f != nil {
		return nil, f
	}
	d, f := s.recorded(ctx, name, t)
	if f != nil {
		return nil, f
	}
	first, ok := planning.SuggestBy(now.First(), func(t *quota.Tier) planning.Outcome {
		return d.replay([]quota.Tier{*t})
	}, float64(req.RefusedPpm)/quota.Million)
	next := *now
	next.SetFirst(first)
	out := &quoratev1.SuggestResponse{
		Outcome: outcomeProto(&next, d.replay(next.Tiers())), Now: outcomeProto(now, d.replay(now.Tiers())), Basis: d.basis(), Coverage: coverage(t, &d.answer),
	}
	switch {
	case out.Now.Attempted == 0:
		return nil, notNow("nothing was asked of %v in this time, so no rate can be suggested; ask for a longer time", name)
	case !ok:
		return nil, notNow("no rate refuses so little of what %v was asked for; allow more to be refused", name)
	}
	if len(next.More) > 0 {
		out.Statements = append(out.Statements, "the suggestion is for the first tier; the others stay as they are, and may refuse more")
	}
	out.Statements = append(out.Statements, d.statements(now, &next, out.Outcome, out.Coverage)...)
	return out, nil
}

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
	if out.Refill > 0 {
		saturate(out, l, u, &key)
	}
	out.Statement = headroomText(out, l)
	if key.Key == "" && u.Attempted > 0 {
		out.Statement += "; its keys are not recorded, so all demand was taken for one key's"
	}
	return out, nil
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
	}
	return text + "; " + refusedText(h)
}

func refusedText(h *quoratev1.LimitHeadroom) string {
	if h.Shadow {
		return fmt.Sprintf("%.3g%% would have been refused, and all passed: it is not enforced", 100*h.RefusedPart)
	}
	return fmt.Sprintf("%.3g%% was refused", 100*h.RefusedPart)
}
