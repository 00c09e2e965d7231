package client

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// rules are the current limits in the form that decisions need.
type rules struct {
	limits       *quota.Limits
	remote       map[quota.LimitName]bool      // limits that a node has to decide
	noReport     []string                      // namespaces without permission to report
	descriptions map[*quota.Limit]*description // descriptions for callers, made once
}

// description describes a limit to callers, with a policy for each of its tiers.
type description struct {
	Limit
	policies []Policy // Remaining and ResetAfter are not set
}

func newRules(limits *quota.Limits, noReport []string) *rules {
	r := &rules{limits: limits, noReport: noReport, remote: map[quota.LimitName]bool{}, descriptions: map[*quota.Limit]*description{}}
	all := limits.All()
	for i := range all {
		l := &all[i]
		r.descriptions[l] = describe(l)
		for _, c := range limits.Charges(l.LimitName) {
			if c.Limit.AsksLeader() || c.Limit.Kind == quota.Concurrency {
				r.remote[l.LimitName] = true
			}
		}
	}
	return r
}

// needsNode reports whether a node has to decide the limit with that name.
func (r *rules) needsNode(n quota.LimitName) bool {
	if len(r.remote) == 0 {
		return false
	}
	l, _ := r.limits.Resolve(n, "")
	return l != nil && r.remote[l.LimitName]
}

// mayReport reports whether the node accepts refunds and reports for keys of the limit from this process. If not, they
// must be calls, which state the missing permission.
func (r *rules) mayReport(n quota.LimitName) bool {
	if len(r.noReport) == 0 {
		return true
	}
	l, _ := r.limits.Resolve(n, "")
	return !slices.Contains(r.noReport, n.Namespace) && (l == nil || !slices.Contains(r.noReport, l.Namespace))
}

// describe describes a limit to callers.
func describe(l *quota.Limit) *description {
	out := &description{Limit: Limit{
		Namespace: l.Namespace, Name: l.LimitName.Limit, Rate: l.Rate.String(), Burst: l.Burst, Hard: l.Ceiling == quota.Hard,
	}}
	if l.Kind == quota.Concurrency {
		out.Rate = ""
	}
	for i, t := range l.Tiers() {
		p := Policy{Name: l.LimitName.Limit, Quota: t.Burst, Window: windowOf(t.Rate, t.Burst)}
		if i > 0 {
			p.Name = tierName(p.Name, i+1)
		}
		if t.Kind == quota.Concurrency {
			p.Window = 0
		} else if t.Kind.Windowed() {
			p.Window, p.Windowed = t.Rate.Per, true
		}
		out.policies = append(out.policies, p)
	}
	return out
}

// known returns the description of a limit. For one that an override changes, it makes a new one.
func (r *rules) known(l *quota.Limit) *description {
	if s, ok := r.descriptions[l]; ok {
		return s
	}
	return describe(l)
}

// modeOf returns the mode of a decision in this process.
func modeOf(w quota.Why) DecisionMode {
	switch w {
	case quota.WhyEstimate:
		return ModeSoft
	case quota.WhyLocal, quota.WhyCutOff, quota.WhyShare, quota.WhyOpen, quota.WhyFixedRate:
		return ModeCutOff
	}
	return ModeGranted
}

// result converts a decision.
func (r *rules) result(d *quota.Decision) Result {
	if d.Limit == nil {
		return Result{Allowed: d.Allowed, Why: Why(d.Why.String()), Mode: modeOf(d.Why)}
	}
	s := r.known(d.Limit)
	out := Result{
		Allowed: d.Allowed, Limit: s.Limit, Remaining: d.Remaining, Wait: d.Wait, Shadow: d.Shadow, Near: d.Near,
		Why: Why(d.Why.String()), Mode: modeOf(d.Why), ResetAfter: d.ResetAfter,
	}
	if !d.Allowed {
		out.RetryAfter = d.RetryAfter
	}
	if p, ok := s.policy(d); ok {
		out.Policies = []Policy{p}
	}
	return out
}

// policy returns the policy of the deciding tier; false if nothing was counted or enforced.
func (s *description) policy(d *quota.Decision) (Policy, bool) {
	if d.Shadow || d.Limit.Class != quota.Counted || d.Limit.Enforcement == quota.Off || d.Tier > len(s.policies) {
		return Policy{}, false
	}
	p := s.policies[max(d.Tier, 1)-1]
	p.Remaining = min(max(0, d.Remaining), p.Quota)
	if d.ResetAfter < time.Duration(1<<62) {
		p.ResetAfter = d.ResetAfter
	}
	return p, true
}
