package planner

import (
	"context"
	"slices"
	"time"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/history"
	planning "github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/quota"
)

// demand holds what is recorded of a limit in a time range.
type demand struct {
	timeRange
	answer history.Answer
	step   int
	// For a limit that counts many keys.
	keyed   *planning.Keyed
	part    history.Second     // length of the parts for which keys are listed
	seen    *planning.Observed // nil if the rule was not active all the time, or does not alone decide on refusals
	many    bool
	unknown bool // no keys are recorded
	// accounts is the assumed number of accounts with equal demand, because the demand of each is not
	// recorded; 0 for a limit.
	accounts int64
}

// recorded reads the recorded demand of a limit.
func (s *Planner) recorded(ctx context.Context, name quota.LimitName, t timeRange) (*demand, error) {
	d := &demand{timeRange: t, step: s.stepFor(t, MaxPoints)}
	all, err := s.node.HistoryKeys(ctx, history.KeysQuery{Limit: name, From: t.from, End: t.end, Top: 2})
	if err != nil && !apierr.IsNoLeader(err) { // an answer is possible without the keys
		return nil, apierr.From(err)
	}
	d.unknown = len(all.Keys) == 0 || ofAccounts(name)
	d.many = !d.unknown && (len(all.Keys) > 1 || all.Rest > 0)
	if d.many {
		d.from -= d.from % d.grain()
	}
	if err := s.readPoints(ctx, name, d); err != nil {
		return nil, err
	}
	if ofAccounts(name) {
		d.accounts = d.alike(s.ruleOf(name))
	}
	if !d.many {
		return d, nil
	}
	parts, err := s.listed(ctx, name, d, all.AsOf)
	if err == nil {
		d.seen, err = s.observed(ctx, name, d)
	}
	if err != nil {
		return nil, err
	}
	d.keyed = planning.NewKeyed(d.answer.Points, parts, d.seen)
	return d, nil
}

// readPoints reads points of d.step. If minutes are kept for less time than usual, it reads hours instead.
func (s *Planner) readPoints(ctx context.Context, name quota.LimitName, d *demand) error {
	q := history.Query{Limit: name, From: d.from, End: d.end, Step: d.step}
	var err error
	if d.answer, err = s.node.History(ctx, q); err != nil {
		return apierr.From(err)
	}
	if q.Step = 3600; d.step != 60 || d.begins() < d.from+3600 {
		return nil
	}
	hours := *d
	hours.step = q.Step
	if hours.answer, err = s.node.History(ctx, q); err != nil {
		return apierr.From(err)
	}
	if hours.begins()+3600 <= d.begins() {
		*d = hours
	}
	return nil
}

// begins returns the second from which on demand is known.
func (d *demand) begins() history.Second {
	if len(d.answer.Points) == 0 {
		return d.end
	}
	return d.answer.Points[0].Start
}

// grain returns the interval in seconds at which keys are listed.
func (d *demand) grain() history.Second {
	if d.step == 1 {
		return 60
	}
	return 3600
}

// listed reads the demand of the busiest keys by the minute, or in at most maxKeyPoints parts of whole
// hours. It drops demand that is too recent for lists of minutes, as long as it is little.
func (s *Planner) listed(ctx context.Context, name quota.LimitName, d *demand, asOf history.Second) ([]planning.Part, error) {
	end := min(d.end, d.answer.AsOf)
	if rest := end - asOf - planning.Late; asOf > 0 && rest > 0 && rest <= 180 && d.step == 1 {
		end = asOf + planning.Late
		d.answer.Points = slices.DeleteFunc(slices.Clone(d.answer.Points), func(p history.Point) bool { return p.Start >= end })
	}
	d.part = d.grain()
	if d.step > 1 {
		d.part *= max(1, (end-d.from+maxKeyPoints*d.part-1)/(maxKeyPoints*d.part))
	}
	var out []planning.Part
	for at := d.from; at+d.part <= end; at += d.part {
		a, err := s.node.HistoryKeys(ctx, history.KeysQuery{Limit: name, From: at, End: at + d.part, Top: plannedKeys})
		if err != nil {
			return nil, apierr.From(err)
		}
		if a.Unattributed == 0 {
			out = append(out, planning.Part{At: at, Seconds: int(d.part), Keys: a.Keys, Rest: a.Rest})
		}
	}
	return out, nil
}

// observed returns what the current rule did with the demand, or nil if it did not decide alone.
func (s *Planner) observed(ctx context.Context, name quota.LimitName, d *demand) (*planning.Observed, error) {
	now := s.ruleOf(name)
	total := totalOf(d.answer.Points)
	if now == nil || len(now.More) > 0 || now.Parent != "" || now.MaxWait > 0 || len(total.Missing) > 0 || !s.unchanged(ctx, now, d.from) {
		return nil, nil
	}
	t := now.First()
	back := t.Rate.Per.Seconds()
	if t.Kind == quota.TokenBucket {
		back *= float64(t.Burst) / float64(max(1, t.Rate.Tokens))
	}
	before := timeRange{d.from - history.Second(min(back, (366*day).Seconds())) - 1, d.from}
	a, err := s.node.History(ctx, history.Query{Limit: name, From: before.from, End: before.end, Step: s.stepFor(before, MaxPoints)})
	if err != nil {
		return nil, apierr.From(err)
	}
	return &planning.Observed{
		Rule: t, Attempted: total.Attempted, Admitted: total.Admitted, Over: total.Over, Needless: max(total.Needless, total.NeedlessAtMost),
		Before: totalOf(a.Points).Admitted,
	}, nil
}

// seenVersions bounds the versions that are examined for changes of a rule.
const seenVersions = 8

// unchanged reports whether since from only this rule, or none, was active, and no key had another rule.
// If that cannot be determined, it returns false.
func (s *Planner) unchanged(ctx context.Context, now *quota.Limit, from history.Second) bool {
	if list, _ := s.node.ListOverrides(now.LimitName, quota.Key{}, 1); len(list) > 0 {
		return false
	}
	versions, err := s.node.LimitVersions(ctx, 0, seenVersions)
	if err != nil {
		return false
	}
	for _, v := range versions {
		_, list, err := s.node.LimitsAt(ctx, v.Number)
		if err != nil || !sameRule(list, now) {
			return false
		}
		if v.At < quota.Time(from)*quota.Time(time.Second) || v.Number == 1 {
			return true
		}
	}
	return false
}

// sameRule reports whether limits contain the same rule for the limit, or none and nothing that would
// stand in for it.
func sameRule(list []quota.Limit, now *quota.Limit) bool {
	for i := range list {
		l := &list[i]
		switch {
		case l.LimitName == now.LimitName:
			return slices.Equal(l.Tiers(), now.Tiers()) && l.Parent == now.Parent && l.Class == now.Class
		case l.Namespace == now.Namespace && (l.Limit == quota.Default || l.Limit == quota.Template), l.LimitName == quota.Global:
			return false
		}
	}
	return true
}

// basis returns the kind of data that answers on this demand rest on.
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
		return d.keyed.Replay(tiers)
	case d.accounts > 0:
		return d.replayAccounts(tiers)
	}
	return d.replayOne(tiers)
}

// replayOne is replay for the demand of one key.
func (d *demand) replayOne(tiers []quota.Tier) planning.Outcome {
	if d.step == 1 {
		return planning.ReplayAll(tiers, planning.Whole(d.answer.Points))
	}
	return planning.ReplayPoints(tiers, d.answer.Points)
}
