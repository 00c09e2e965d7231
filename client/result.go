package client

import (
	"strconv"
	"strings"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Result is the answer to one check.
type Result struct {
	Allowed bool
	// Limit is the rule that decided: the whole cluster's, never a node's share.
	Limit Limit
	// Remaining is the estimated number of tokens left in the whole cluster.
	Remaining int64
	// RetryAfter is 0 when allowed, else how long it takes at least until the same
	// check could pass; [Never] when it never can.
	RetryAfter time.Duration
	// Wait is how long to wait before going ahead: the tokens are reserved. Only
	// limits with max_wait ask for it.
	Wait time.Duration
	// Shadow says that it was allowed only because the limit is not enforced yet;
	// Near that little is left.
	Shadow, Near bool
	// Why says how it was decided, and Mode by what means.
	Why  Why
	Mode DecisionMode
	// ResetAfter is when Limit would be full again if nobody asked; of a window,
	// its end. 0 when it is full, or not known.
	ResetAfter time.Duration
	// Policies are what callers may be told of the limits that were charged, for
	// RateLimit headers: one after Allow; after AllowHTTP one for each limit that
	// matched, as far as they were decided, in order of their names. There is none when
	// no limit decided, or the limit counts nothing. Shadow limits are left out.
	Policies []Policy
	// Err is the fault of this check. Only AllowBatch sets it; the other fields
	// are then zero.
	Err error
}

// Limit is one rule: a token bucket for every key.
type Limit struct {
	Namespace, Name string
	Rate            string // refill, as in limit files: "10/s", "5/m"
	Burst           int64  // most tokens that can go at once
	Hard            bool   // never exceeded, whatever fails
}

// Why says how a decision was made. The words are stable; new ones may come.
type Why string

// The values of Why.
const (
	WhyHeld        Why = "held"          // admitted out of tokens that the node holds
	WhyEstimate    Why = "estimate"      // admitted on the estimated global level
	WhyLocal       Why = "local"         // the node is cut off and applies the whole limit
	WhyOverLimit   Why = "over_limit"    // refused: the global limit is used up
	WhyOverBurst   Why = "over_burst"    // refused for ever: the cost exceeds the burst
	WhyNotHeld     Why = "not_held"      // refused: the node holds too little just now
	WhyCutOff      Why = "cut_off"       // refused: the node is cut off and holds nothing
	WhyTooManyKeys Why = "too_many_keys" // there is no room for the key, and it may share no bucket
	WhyNoLimit     Why = "no_limit"      // there is no such limit

	WhyReserved        Why = "reserved"          // admitted out of tokens to come: wait for Result.Wait
	WhyWaitTooLong     Why = "wait_too_long"     // refused: it would have to wait longer than it may
	WhyOverMaxCost     Why = "over_max_cost"     // refused for ever: the cost exceeds the limit's max_cost
	WhyUnlimited       Why = "unlimited"         // the limit, or an override of it, admits everything
	WhyBanned          Why = "banned"            // the limit, or an override of it, refuses everything
	WhyLeader          Why = "leader"            // decided by the leader of the key's range itself
	WhyShare           Why = "share"             // the node is cut off: its last part of the rate
	WhyOpen            Why = "open"              // the node is cut off: everything passes
	WhyFixedRate       Why = "fixed_rate"        // the node is cut off: a rate of its own
	WhyNotEnforced     Why = "not_enforced"      // enforcement is off
	WhyFloor           Why = "floor"             // admitted out of the floor although a parent is used up
	WhyParentOverLimit Why = "parent_over_limit" // refused: a parent is used up
	WhyFailover        Why = "failover"          // refused: the key's range is between two leaders; see Result.RetryAfter
	WhyUseAcquire      Why = "use_acquire"       // refused for ever: what counts what is in flight is acquired and released

	WhyUnknown Why = "unknown" // the node says something newer than this client
)

// DecisionMode says by what means a decision was made. The words are stable; new
// ones may come.
type DecisionMode string

// The values of DecisionMode.
const (
	ModeGranted  DecisionMode = "granted"  // in the process, out of what its node has granted, or refused by what it told
	ModeSoft     DecisionMode = "soft"     // in the process, on the estimated global level of a soft limit
	ModeCutOff   DecisionMode = "cut_off"  // in the process, cut off from all nodes: the limit's when_cut_off
	ModeRemote   DecisionMode = "remote"   // by a node that was asked
	ModeFallback DecisionMode = "fallback" // nobody knows the limit yet, or answers: the client's own defaults
)

// Policy is one limit as a caller sees it.
type Policy struct {
	// Name of the limit, without its namespace; tiers behind the first are
	// "name-2", "name-3".
	Name string
	// Quota is the most that can go at once: the burst, or a window's count.
	Quota int64
	// Window is the time that Quota is for: of a bucket what refilling it takes,
	// of a window its length. 0 for what counts what is in flight.
	Window time.Duration
	// Remaining is the estimated number of tokens left, 0 to Quota.
	Remaining int64
	// ResetAfter is when it would be full again if nobody asked; of a window its
	// end. 0 when it is full, or not known.
	ResetAfter time.Duration
	// Windowed says that nothing comes before ResetAfter; a bucket gets a token
	// every Window/Quota.
	Windowed bool
}

func fromProto(r *quoratev1.AllowResponse) Result {
	out := Result{
		Allowed:   r.GetAllowed(),
		Remaining: r.GetRemaining(),
		Why:       why(r.GetWhy()),
		Wait:      r.GetWait().AsDuration(),
		Shadow:    r.GetShadow(),
		Near:      r.GetNear(),
		Mode:      ModeRemote,
		Policies:  policies(r),

		ResetAfter: r.GetResetAfter().AsDuration(),
		Limit: Limit{
			Namespace: r.GetLimit().GetNamespace(), Name: r.GetLimit().GetName(), Rate: r.GetLimit().GetRate(),
			Burst: r.GetLimit().GetBurst(), Hard: r.GetLimit().GetCeiling() == quoratev1.Ceiling_CEILING_HARD,
		},
	}
	switch {
	case out.Allowed:
	case r.GetRetryAfter() == nil:
		out.RetryAfter = Never
	default:
		out.RetryAfter = r.GetRetryAfter().AsDuration()
	}
	return out
}

// policies is the limit of an answer as a caller sees it: one, or none.
func policies(r *quoratev1.AllowResponse) []Policy {
	l := r.GetLimit()
	if l.GetName() == "" || r.GetShadow() || l.GetClass() > quoratev1.Class_CLASS_COUNTED || l.GetEnforcement() == quoratev1.Enforcement_ENFORCEMENT_OFF {
		return nil
	}
	p := Policy{Name: l.GetName(), Quota: l.GetBurst(), Remaining: max(0, r.GetRemaining()), ResetAfter: r.GetResetAfter().AsDuration()}
	kind, rate := l.GetKind(), l.GetRate()
	if n := int(r.GetTier()); n > 1 && n <= len(l.GetTiers()) {
		t := l.GetTiers()[n-1]
		p.Name, p.Quota, kind, rate = tierName(p.Name, n), t.GetBurst(), t.GetKind(), t.GetRate()
	}
	p.Windowed = kind > 0 && quota.Kind(kind-1).Windowed()
	if kind == quoratev1.Kind_KIND_CONCURRENCY {
		p.Quota = max(p.Quota, l.GetInFlight())
		return []Policy{p}
	}
	if parsed, err := quota.ParseRate(rate); err == nil {
		p.Window = windowOf(parsed, p.Quota)
	}
	return []Policy{p}
}

func tierName(name string, tier int) string { return name + "-" + strconv.Itoa(tier) }

// windowOf is how long a rate takes for a number of tokens.
func windowOf(r quota.Rate, tokens int64) time.Duration {
	if r.Tokens <= 0 {
		return r.Per
	}
	return r.TimeFor(quota.FromTokens(tokens))
}

var whys = func() map[quoratev1.Why]Why {
	m := make(map[quoratev1.Why]Why, len(quoratev1.Why_name))
	for n, name := range quoratev1.Why_name {
		m[quoratev1.Why(n)] = Why(strings.ToLower(strings.TrimPrefix(name, "WHY_")))
	}
	delete(m, quoratev1.Why_WHY_UNSPECIFIED)
	return m
}()

func why(w quoratev1.Why) Why {
	if word, ok := whys[w]; ok {
		return word
	}
	return WhyUnknown
}
