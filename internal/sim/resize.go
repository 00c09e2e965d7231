package sim

import (
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// What the limit is, changes while requests run: its tiers (resize), the override of its only key, and where it is
// decided. Nodes, and the leaders on them, learn of a change one after another, so for a while several versions of
// the limit apply.
//
// The property: at each moment the limit allows, in each tier, what the larger of all versions allows that some
// running process applies: the larger burst or count, the higher rate, the shorter window. Use so far stays counted.
// So a raise counts from the moment at which the first process learns of it, and a cut from the moment at which
// the last one does.

// resizable is the key that overrides and resets apply to: scenarios with these have one key.
const resizable = "k"

// resize changes the tiers of the limit.
func (r *run) resize(tiers []quota.Tier) {
	l := r.limits.All()[0]
	l.SetFirst(tiers[0])
	l.More = tiers[1:]
	r.setLimit(l)
}

// decideAt changes where the limit is decided.
func (r *run) decideAt(where quota.Decide) {
	l := r.limits.All()[0]
	l.Decide = where
	r.setLimit(l)
}

// setLimit gives all nodes a new version of the limits.
func (r *run) setLimit(l quota.Limit) {
	if r.baseline != nil {
		return
	}
	limits, err := quota.NewLimits(r.limits.Version+1, append([]quota.Limit{l}, r.parents...))
	if err != nil {
		panic(err)
	}
	r.limits = limits
	r.idealResized()
	r.tellAll(func(n *node) {
		n.limits = r.limits
		n.agg.SetLimits(n.clock(), n.limits)
	}, func(s *leadership) { s.ledger.SetLimits(s.node.clock(), s.node.limits) })
}

// override gives the key an override that multiplies all tiers by parts per million.
func (r *run) override(parts int64) {
	if r.baseline != nil {
		return
	}
	k := r.key(resizable)
	r.lastOverride = nil
	if parts != quota.Million {
		r.lastOverride = &quota.Override{Key: k, Burst: -1, Scale: parts}
	}
	r.idealResized()
	r.tellAll(func(n *node) {
		n.over = r.lastOverride
		n.agg.Overridden(n.clock(), []quota.Key{k})
	}, func(s *leadership) { s.ledger.Overridden(s.node.clock(), []quota.Key{k}) })
}

// Override implements quota.Overrides: it returns the override that the node has learned of.
func (n *node) Override(k quota.Key) *quota.Override { return overrideOf(n.over, k) }

func overrideOf(o *quota.Override, k quota.Key) *quota.Override {
	if o != nil && o.Key == k {
		return o
	}
	return nil
}

// idealResized gives the newest limit to the ideal, which learns of it at once.
func (r *run) idealResized() {
	for _, t := range r.book.keys {
		t.ideal.Resize(r.now, r.newestLimit())
	}
}

// newestLimit returns the newest version of the limit, with the override of the only key.
func (r *run) newestLimit() *quota.Limit {
	l := r.limits.All()[0]
	if r.lastOverride != nil {
		return r.lastOverride.Apply(&l)
	}
	return &l
}

// learned takes over the newest limits at a node that starts.
func (r *run) learned(n *node) { n.limits, n.over = r.limits, r.lastOverride }

// tiersOf returns the tiers of the only key, as a process knows them.
func tiersOf(limits *quota.Limits, over *quota.Override) []quota.Tier {
	l := limits.All()[0]
	if over != nil {
		l = *over.Apply(&l)
	}
	return l.Tiers()
}

// resized adapts the envelopes to what running processes apply now.
func (r *run) resized() {
	if !r.varying || r.baseline != nil {
		return
	}
	var tiers []quota.Tier
	add := func(of []quota.Tier) {
		if tiers == nil {
			tiers = of
		}
		for i := range tiers {
			tiers[i] = larger(tiers[i], of[i])
		}
	}
	for _, n := range r.nodes {
		if !n.dead {
			add(tiersOf(n.limits, n.over))
		}
	}
	for _, p := range r.cl.procs {
		add(tiersOf(p.limits, p.over))
	}
	if tiers == nil || slices.Equal(tiers, r.tiers) {
		return
	}
	r.tiers = tiers
	for _, t := range r.book.keys {
		t.envelop.Retier(r.now, tiers, r.forgives())
		t.backing.Retier(r.now, tiers, r.forgives())
		if r.forgives() {
			t.beyond = max(0, t.inFlight-float64(tiers[0].Burst))
		}
	}
	if r.mayAsk {
		for i := range tiers {
			r.answered = append(r.answered, answered{at: r.now, key: resizable, tier: i, size: &tiers[i]})
		}
	}
}

// forgives reports whether use beyond a cut limit is no debt of it: soft limits may exceed what is left by their bound.
func (r *run) forgives() bool { return r.Limit.Ceiling == quota.Soft }

// larger returns a tier that allows at least what each of two allows.
func larger(a, b quota.Tier) quota.Tier {
	switch a.Kind {
	case quota.TokenBucket:
		if b.Rate.PerSecond() > a.Rate.PerSecond() {
			a.Rate = b.Rate
		}
	case quota.FixedWindow, quota.SlidingWindow, quota.PeriodicRefill:
		a.Rate.Per = min(a.Rate.Per, b.Rate.Per)
	}
	if a.Burst = max(a.Burst, b.Burst); a.Kind.Windowed() {
		a.Rate.Tokens = a.Burst
	}
	return a
}

// reset resets the key at the leader. Without one, nobody does. What members have used and not reported
// counts as use before the reset under soft.
func (r *run) reset() {
	if r.baseline != nil {
		return
	}
	s := r.newest()
	if s.ledger == nil || s.node.dead || s.node.paused {
		return
	}
	for _, c := range s.node.limits.Charges(r.Limit.LimitName) {
		s.ledger.Reset(s.node.clock(), quota.Key{LimitName: c.Limit.LimitName, Key: resizable})
	}
	r.resets, r.resetAt = r.resets+1, r.now
	t := r.tally(resizable)
	t.ideal.Reset(r.now)
	t.envelop.Reset(r.now)
	t.backing.Reset(r.now)
	if r.mayAsk {
		for i := range r.tiers {
			r.answered = append(r.answered, answered{at: r.now, key: resizable, tier: i, reset: true})
		}
	}
	r.pushed(s)
	r.prove(s, nil)
}

// resizes returns the tiers of the limit in all versions without an override.
func (s *Scenario) resizes() [][]quota.Tier {
	all := [][]quota.Tier{s.Limit.Tiers()}
	for i := range s.Faults {
		if f := &s.Faults[i]; f.Kind == Resize {
			all = append(all, f.Tiers)
		}
	}
	return all
}

// sizes returns the tiers of the limit in all versions, with and without each override.
func (s *Scenario) sizes() [][]quota.Tier {
	base := s.resizes()
	all := base
	for i := range s.Faults {
		if f := &s.Faults[i]; f.Kind == Override {
			for _, tiers := range base {
				l := s.Limit
				l.SetFirst(tiers[0])
				l.More = tiers[1:]
				o := quota.Override{Burst: -1, Scale: f.Scale}
				all = append(all, o.Apply(&l).Tiers())
			}
		}
	}
	return all
}

// modes returns the limit in all versions that there may be.
func (s *Scenario) modes() []quota.Limit {
	where := []quota.Decide{s.Limit.Decide}
	for i := range s.Faults {
		if f := &s.Faults[i]; f.Kind == Switch && !slices.Contains(where, f.Decide) {
			where = append(where, f.Decide)
		}
	}
	var all []quota.Limit
	for _, tiers := range s.sizes() {
		for _, d := range where {
			l := s.Limit
			l.SetFirst(tiers[0])
			l.More, l.Decide = tiers[1:], d
			all = append(all, l)
		}
	}
	return all
}
