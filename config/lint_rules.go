package config

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

func lintMaxCost(_ *lint, l *quota.Limit, say say) {
	free := *l
	free.MaxCost = 0
	if most := free.MostCost(); l.MaxCost > most {
		say("max_cost is %d, but more than %d can never pass; raise the burst, or lower max_cost", l.MaxCost, most)
	}
}

func lintDebt(_ *lint, l *quota.Limit, say say) {
	if l.MaxDebt == 0 || l.MaxCost == 0 || l.Kind != quota.TokenBucket {
		return
	}
	if takes := l.Rate.TimeFor(quota.FromTokens(l.MaxCost)); takes > l.MaxDebt {
		say("max_cost %d takes %s to refill, but only max_debt %s can be reserved: on an empty bucket it is refused, however long the caller would wait; raise max_debt",
			l.MaxCost, aboutPause(takes), formatPause(l.MaxDebt))
	}
}

// aboutPause formats a duration, rounded to whole seconds if it is at least one.
func aboutPause(d time.Duration) string {
	if d > quota.MaxPause {
		return "more than a year"
	}
	if d > time.Second {
		d = d.Round(time.Second)
	}
	return formatPause(d)
}

func lintNear(_ *lint, l *quota.Limit, say say) {
	if l.Near == 100 {
		say("near is 100%%: decisions are flagged only when nothing is left; give a lower percentage")
	}
}

func lintFraction(_ *lint, l *quota.Limit, say say) {
	switch {
	case l.Fraction == 0:
	case l.Enforcement != quota.Enforce:
		say("a fraction of %s%% has no effect under %v; use enforce, or omit the fraction", formatParts(l.Fraction, quota.Million/100), l.Enforcement)
	case l.Fraction == quota.Million:
		say("a fraction of 100%% is all keys, the default; omit it")
	}
}

func lintOff(_ *lint, l *quota.Limit, say say) {
	if l.Enforcement == quota.Off {
		say("is off: everything passes and nothing is counted; use shadow to see what it would refuse, or remove it")
	}
}

func lintCutOffRate(_ *lint, l *quota.Limit, say say) {
	for _, c := range []struct {
		policy quota.CutOffPolicy
		rate   quota.Rate
	}{{l.CutOff.Policy, l.CutOff.Rate}, {l.CutOff.Then, l.CutOff.ThenRate}} {
		if c.policy == quota.CutOffRate && l.Kind != quota.Concurrency && compareRates(c.rate, l.Rate, 1) > 0 {
			say("when cut off, each node admits %v by itself, more than the %v of all nodes together; give a lower rate", formatRate(c.rate), formatRate(l.Rate))
			return
		}
	}
}

func lintZeroBurst(_ *lint, l *quota.Limit, say say) {
	if l.Kind == quota.Concurrency && l.Burst == 0 {
		say("in_flight is 0, which refuses everything; give a number, or write ban: true")
	}
	if l.Kind == quota.TokenBucket && l.Burst == 0 && l.Rate.Tokens > 0 {
		say("a burst of 0 refuses everything, whatever the rate; give it a burst, or write ban: true")
	}
}

func lintMatchInFlight(_ *lint, l *quota.Limit, say say) {
	if l.Kind != quota.Concurrency || l.Match == nil || l.Enforcement == quota.Off {
		return
	}
	is := "is"
	if l.Enforcement == quota.Shadow {
		is = "would be"
	}
	say("is a concurrency limit, which a check by method and path cannot acquire: every matching request %s refused (use_acquire), unless it reserves; omit match and acquire the limit by its name, or give it a rate or a window", is)
}

func lintNeverRefilled(_ *lint, l *quota.Limit, say say) {
	if l.Kind == quota.TokenBucket && l.Burst > 0 && l.Rate.Tokens == 0 {
		say("a rate of 0 never refills: a key gets %d once; give it a rate", l.Burst)
	}
}

func lintSlowly(_ *lint, l *quota.Limit, say say) {
	if l.Kind != quota.TokenBucket || l.Rate.Tokens == 0 {
		return
	}
	if l.Rate.TimeFor(l.BurstUnits()) > quota.MaxPause {
		say("a burst of %d takes more than a year to refill at %s; raise the rate, or lower the burst", l.Burst, formatRate(l.Rate))
	}
}

func lintBucketDoubles(_ *lint, l *quota.Limit, say say) {
	if l.Kind == quota.TokenBucket && l.Rate.Per >= 24*time.Hour && l.Rate.Tokens > 1 && l.Burst >= l.Rate.Tokens {
		say("a full bucket and its refill admit up to %d in the first %s; use window: sliding or calendar, or a smaller burst",
			l.Burst+l.Rate.Tokens-1, formatPause(l.Rate.Per))
	}
}

func lintBoundary(_ *lint, l *quota.Limit, say say) {
	if l.Ceiling != quota.Hard {
		return
	}
	for _, t := range l.Tiers() {
		if t.Kind == quota.FixedWindow && t.Burst >= 2 {
			say("is hard, but up to %d can pass within %s, around the end of a window; use window: sliding if that matters", 2*t.Burst, formatPause(t.Rate.Per))
			return
		}
	}
}

// lintLeaderSuits leaves out the token buckets of decide: auto: the leader decides them anyway.
func lintLeaderSuits(_ *lint, l *quota.Limit, say say) {
	slow := l.Rate.Per > 0 && compareRates(l.Rate, quota.Rate{Tokens: 1, Per: time.Second}, 1) <= 0
	if l.Kind != quota.Concurrency && l.Burst == 1 && len(l.More) == 0 && slow && l.Ceiling == quota.Soft && !l.MayAsk() {
		say("a single place cannot be divided among nodes, so several nodes may each admit one; use decide: leader where that matters")
	}
}

// lintLocalSmallBurst warns where three nodes at twice the rate were simulated to admit 10 to 70 % less than the limit.
// Under soft they overdraw unless the rate refills half of the burst within a sync interval.
func lintLocalSmallBurst(_ *lint, l *quota.Limit, say say) {
	const few = 5 // less than two for each of three nodes
	if l.Decide != quota.Locally || l.Kind == quota.Concurrency || l.Burst < 1 || l.Burst > few {
		return
	}
	if l.Ceiling == quota.Hard || l.Kind == quota.TokenBucket && compareRates(l.Rate, quota.Rate{Tokens: 5 * l.Burst, Per: time.Second}, 1) >= 0 {
		say("nodes cannot divide a burst of %d well: with decide: local they refuse much of what the limit would admit; use decide: auto", l.Burst)
	}
}
