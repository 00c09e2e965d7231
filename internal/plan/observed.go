package plan

import "github.com/quorate/quorate/internal/quota"

// Observed holds what a rule that was active all the time admitted of the demand.
type Observed struct {
	Rule                quota.Tier
	Attempted, Admitted quota.Units
	// Over was admitted beyond the rule. Needless is an upper bound on refusals despite room.
	Over, Needless quota.Units
	// Before was admitted earlier, but may not have been refilled when the demand began.
	Before quota.Units
}

// Refused returns what the rule refused.
func (o *Observed) Refused() quota.Units { return max(0, o.Attempted-o.Admitted) }

// narrow narrows the bounds of out by what is known about another rule. A bucket admits the largest number
// of one-token requests that can pass together. If another rule's rate and burst are smaller by some
// proportion, that proportion of what the current rule admitted can pass the other rule, which therefore
// admits at least as much. The same holds the other way round, and for any number of keys.
func (o *Observed) narrow(t *quota.Tier, out *Outcome) {
	if o == nil || !o.compares(t) {
		return
	}
	passes := proportion(&o.Rule, t) * float64(max(0, o.Admitted-o.Over))
	back := proportion(t, &o.Rule)
	out.RefusedAtMost = min(out.RefusedAtMost, max(0, out.Attempted-quota.Units(passes))+quota.Token-1)
	if back > 0 {
		most := min(float64(o.Admitted.Plus(o.Needless).Plus(o.Before))/back, float64(out.Attempted))
		out.RefusedAtLeast = max(out.RefusedAtLeast, out.Attempted-quota.Units(most)-quota.Token+1)
	}
	out.RefusedAtLeast = min(out.RefusedAtLeast, out.RefusedAtMost)
}

// compares reports whether the rule and t have the same kind and the same windows.
func (o *Observed) compares(t *quota.Tier) bool {
	switch r := &o.Rule; t.Kind {
	case quota.TokenBucket:
		return r.Kind == t.Kind
	case quota.FixedWindow, quota.CalendarWindow:
		return r.Kind == t.Kind && r.Rate.Per == t.Rate.Per && r.Calendar == t.Calendar
	}
	return false
}

// proportion returns the part of what from admits that to also admits. Tokens are whole: a part of a burst
// may be one token larger than the same part of the burst's size.
func proportion(from, to *quota.Tier) float64 {
	part := 1.0
	if a, b := perSecond(from), perSecond(to); b < a {
		part = b / a
	}
	if to.Burst < from.Burst {
		spare := int64(1)
		if to.Kind != quota.TokenBucket {
			spare = 0
		}
		part = min(part, float64(max(0, to.Burst-spare))/float64(from.Burst))
	} else if part < 1 && to.Kind == quota.TokenBucket {
		part = min(part, float64(max(0, to.Burst-1))/float64(from.Burst))
	}
	return part
}
