package envoy

import (
	"math"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// status returns the status of a target. A target without a limit is OK, and has no other fields.
func (t *target) status(code statusCode, d *quota.Decision, now time.Time) *statusOf {
	st := &statusOf{Code: code}
	switch {
	case t.rule != nil && t.rule.Unlimited:
		st.LimitRemaining = math.MaxUint32
	case d == nil || d.Limit == nil || d.Why == quota.WhyNotEnforced:
	case d.Limit.Class == quota.Unlimited:
		st.LimitRemaining = math.MaxUint32
	default:
		st.CurrentLimit = currentLimit(tierOf(d))
		st.CurrentLimit.Name = t.limitName(d)
		st.LimitRemaining = uint32(min(max(d.Remaining, 0), math.MaxUint32))
		st.DurationUntilReset = &durationpb.Duration{Seconds: apiproto.WholeSeconds(againAfter(d, now))}
	}
	return st
}

// limitName returns the name of a status's limit; for a rule that is used unchanged, the rule's
// name.
func (t *target) limitName(d *quota.Decision) string {
	switch {
	case t.asIs:
		return t.rule.Name
	case t.rule == nil:
		return ""
	}
	base, _ := d.Limit.Base()
	return base.Limit
}

// tierOf returns the tier that decided.
func tierOf(d *quota.Decision) quota.Tier {
	if i := d.Tier - 2; i >= 0 && i < len(d.Limit.More) {
		return d.Limit.More[i]
	}
	if d.Limit.Class == quota.Banned {
		return quota.Window(quota.FixedWindow, 0, time.Second)
	}
	return d.Limit.First()
}

const never = time.Duration(math.MaxInt64)

// againAfter returns the time until more is available. For a fixed window this is the time to its
// end, even if it is unused or nothing ever passes.
func againAfter(d *quota.Decision, now time.Time) time.Duration {
	if !d.Allowed && d.RetryAfter > 0 && d.RetryAfter < never {
		return d.RetryAfter
	}
	if t := tierOf(d); d.ResetAfter <= 0 && t.Kind == quota.FixedWindow && t.Rate.Per > 0 {
		return t.Rate.Per - time.Duration(now.UnixNano())%t.Rate.Per
	}
	return max(d.ResetAfter, 0)
}

// byLength lists the units of answers, longest first. Months and years are used only for whole
// multiples.
var byLength = []unitOf{
	ratelimitv3.RateLimitResponse_RateLimit_YEAR, ratelimitv3.RateLimitResponse_RateLimit_MONTH,
	ratelimitv3.RateLimitResponse_RateLimit_WEEK, ratelimitv3.RateLimitResponse_RateLimit_DAY,
	ratelimitv3.RateLimitResponse_RateLimit_HOUR, ratelimitv3.RateLimitResponse_RateLimit_MINUTE,
	ratelimitv3.RateLimitResponse_RateLimit_SECOND,
}

// currentLimit returns a tier in requests per unit; for a bucket, its rate and not its burst. It
// uses the longest unit that divides the period. A period that is not whole seconds becomes the
// requests of one second, rounded down.
func currentLimit(t quota.Tier) *limitOf {
	n, per := t.Rate.Tokens, t.Rate.Per
	if t.Kind.Windowed() {
		n = t.Burst
	}
	if per%time.Second != 0 && per > 0 {
		n, per = quota.MulDiv(n, int64(time.Second), int64(per)), time.Second
	}
	l := &limitOf{RequestsPerUnit: uint32(min(max(n, 0), math.MaxUint32))}
	for _, u := range byLength {
		if unit := units[u.String()]; per >= unit && per%unit == 0 {
			l.Unit = u
			if m := per / unit; m > 1 {
				l.UnitMultiplier = wrapperspb.UInt32(uint32(min(int64(m), math.MaxUint32)))
			}
			break
		}
	}
	return l
}
