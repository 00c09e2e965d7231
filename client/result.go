package client

import (
	"strings"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// Result is the answer to one check.
type Result struct {
	Allowed bool
	// Limit is the rule that decided: the whole cluster's, never a node's share.
	Limit Limit
	// Remaining is the estimated number of tokens left in the whole cluster.
	Remaining int64
	// RetryAfter is 0 when allowed, else the earliest moment at which the same
	// check could pass; [Never] when it never can.
	RetryAfter time.Duration
	// Wait is how long to wait before going ahead: the tokens are reserved. Only
	// limits with max_wait ask for it.
	Wait time.Duration
	// Shadow says that it was allowed only because the limit is not enforced yet;
	// Near that little is left.
	Shadow, Near bool
	// Why says how it was decided.
	Why Why
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
	WhyTooManyKeys Why = "too_many_keys" // the node knows too many keys to decide
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
	WhyUseAcquire      Why = "use_acquire"       // refused for ever: what counts what is in flight is acquired and released

	WhyUnknown Why = "unknown" // the node says something newer than this client
)

func fromProto(r *quoratev1.AllowResponse) Result {
	out := Result{
		Allowed:   r.GetAllowed(),
		Remaining: r.GetRemaining(),
		Why:       why(r.GetWhy()),
		Wait:      r.GetWait().AsDuration(),
		Shadow:    r.GetShadow(),
		Near:      r.GetNear(),
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
