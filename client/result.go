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
	// Limit is the deciding rule, as it applies to the whole cluster.
	Limit Limit
	// Remaining is the estimated number of tokens left in the whole cluster.
	Remaining int64
	// RetryAfter is 0 if allowed, else the shortest time after which the same check could pass;
	// [Never] if it never can.
	RetryAfter time.Duration
	// Wait is how long to wait before proceeding, because the tokens are reserved. Only limits with
	// max_wait use it.
	Wait time.Duration
	// Shadow reports that the check passed only because the limit is not enforced yet; Near that
	// little is left.
	Shadow, Near bool
	// Why is the reason for the decision, and Mode where it was made.
	Why  Why
	Mode DecisionMode
	// ResetAfter is the time until Limit is full if nobody asks; for a window, until its end. 0 if
	// it is full or unknown.
	ResetAfter time.Duration
	// Policies describe the charged limits for RateLimit headers: one after Allow; after AllowHTTP
	// one for each matching limit that was decided, sorted by name. The list is empty if no limit
	// decided or the limit does not count. Shadow limits are omitted.
	Policies []Policy
	// Err is the error of this check. Only AllowBatch sets it; the other fields are then zero.
	Err error
}

// Limit describes a rule.
type Limit struct {
	Namespace, Name string
	Rate            string // refill, as in limit files: "10/s", "5/m"
	Burst           int64  // most tokens that pass at once
	Hard            bool   // never exceeded, whatever fails
}

// Why is the reason for a decision. Words are stable; new ones may be added.
type Why string

// The values of Why.
const (
	WhyHeld        Why = "held"          // admitted out of held tokens
	WhyEstimate    Why = "estimate"      // admitted by the estimated global level
	WhyLocal       Why = "local"         // cut off: the whole limit, applied locally
	WhyOverLimit   Why = "over_limit"    // refused: the global limit is used up
	WhyOverBurst   Why = "over_burst"    // refused for good: the cost exceeds the burst
	WhyNotHeld     Why = "not_held"      // refused: too little is held at the moment
	WhyCutOff      Why = "cut_off"       // refused: cut off, and nothing is held
	WhyTooManyKeys Why = "too_many_keys" // no room for the key, and it may not share a bucket
	WhyNoLimit     Why = "no_limit"      // unknown limit

	WhyReserved        Why = "reserved"          // admitted out of future tokens: wait for Result.Wait
	WhyWaitTooLong     Why = "wait_too_long"     // refused: the wait would be too long
	WhyOverMaxCost     Why = "over_max_cost"     // refused for good: the cost exceeds the limit's max_cost
	WhyUnlimited       Why = "unlimited"         // the limit, or an override of it, admits everything
	WhyBanned          Why = "banned"            // the limit, or an override of it, refuses everything
	WhyLeader          Why = "leader"            // decided by the leader of the key's range
	WhyShare           Why = "share"             // cut off: the last share of the rate
	WhyOpen            Why = "open"              // cut off: everything is admitted
	WhyFixedRate       Why = "fixed_rate"        // cut off: a fixed rate
	WhyNotEnforced     Why = "not_enforced"      // enforcement is off
	WhyFloor           Why = "floor"             // admitted from the floor, although a parent is used up
	WhyParentOverLimit Why = "parent_over_limit" // refused: a parent is used up
	WhyFailover        Why = "failover"          // refused: the key's range has no leader at the moment; see Result.RetryAfter
	WhyUseAcquire      Why = "use_acquire"       // refused for good: a concurrency limit is acquired and released

	WhyUnknown Why = "unknown" // a reason newer than this client
)

// DecisionMode says where and how a decision was made. Words are stable; new ones may be added.
type DecisionMode string

// The values of DecisionMode.
const (
	ModeGranted  DecisionMode = "granted"  // in process, from the node's grants
	ModeSoft     DecisionMode = "soft"     // in process, by the estimated global level of a soft limit
	ModeCutOff   DecisionMode = "cut_off"  // in process, without any node: by the limit's when_cut_off
	ModeRemote   DecisionMode = "remote"   // by a node
	ModeFallback DecisionMode = "fallback" // the limit is unknown, or no node answers: by the client's own defaults
)

// Policy describes one limit to callers.
type Policy struct {
	// Name of the limit, without its namespace. Further tiers are "name-2", "name-3".
	Name string
	// Quota is the most that passes at once: the burst, or a window's count.
	Quota int64
	// Window is the time that Quota applies to: for a bucket, the time to refill it; for a window,
	// its length; 0 for a concurrency limit.
	Window time.Duration
	// Remaining is the estimated number of tokens left, 0 to Quota.
	Remaining int64
	// ResetAfter is the time until the limit is full if nobody asks; for a window, until its end. 0
	// if it is full or unknown.
	ResetAfter time.Duration
	// Windowed reports that nothing refills before ResetAfter; a bucket gains a token every
	// Window/Quota.
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

// policies returns the policy of a node's answer: one or none.
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

// windowOf returns how long a rate takes to yield a number of tokens.
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
