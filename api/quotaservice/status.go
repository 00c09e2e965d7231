package quotaservice

import (
	"time"

	pb "github.com/quorate/quorate/api/gen/quotaservice"
	"github.com/quorate/quorate/internal/quota"
)

// refusals says what each reason of a refusal is called there. What is missing
// is a fault of ours: REJECTED_SERVER_ERROR.
var refusals = map[quota.Why]pb.AllowResponse_Status{
	quota.WhyNoLimit:     pb.AllowResponse_REJECTED_NO_BUCKET,
	quota.WhyTooManyKeys: pb.AllowResponse_REJECTED_TOO_MANY_BUCKETS,

	// No wait would help.
	quota.WhyOverBurst:   pb.AllowResponse_REJECTED_TOO_MANY_TOKENS_REQUESTED,
	quota.WhyOverMaxCost: pb.AllowResponse_REJECTED_TOO_MANY_TOKENS_REQUESTED,
	quota.WhyBanned:      pb.AllowResponse_REJECTED_TOO_MANY_TOKENS_REQUESTED,
	quota.WhyUseAcquire:  pb.AllowResponse_REJECTED_INVALID_REQUEST,

	// Later, but not within the longest wait. A node that is cut off says the
	// same: it has no tokens to give, and clients take a server error for a
	// reason to go ahead.
	quota.WhyOverLimit:       pb.AllowResponse_REJECTED_TIMEOUT,
	quota.WhyWaitTooLong:     pb.AllowResponse_REJECTED_TIMEOUT,
	quota.WhyParentOverLimit: pb.AllowResponse_REJECTED_TIMEOUT,
	quota.WhyNotHeld:         pb.AllowResponse_REJECTED_TIMEOUT,
	quota.WhyCutOff:          pb.AllowResponse_REJECTED_TIMEOUT,
	quota.WhyFailover:        pb.AllowResponse_REJECTED_TIMEOUT,
	quota.WhyHeld:            pb.AllowResponse_REJECTED_TIMEOUT,
	quota.WhyEstimate:        pb.AllowResponse_REJECTED_TIMEOUT,
	quota.WhyLocal:           pb.AllowResponse_REJECTED_TIMEOUT,
	quota.WhyLeader:          pb.AllowResponse_REJECTED_TIMEOUT,
	quota.WhyShare:           pb.AllowResponse_REJECTED_TIMEOUT,
	quota.WhyFixedRate:       pb.AllowResponse_REJECTED_TIMEOUT,
	quota.WhyReserved:        pb.AllowResponse_REJECTED_TIMEOUT,
	quota.WhyFloor:           pb.AllowResponse_REJECTED_TIMEOUT,
}

// answer says a decision in their words. What was not decided is a server
// error, whatever else the decision says.
func answer(d *quota.Decision, cost int64) *pb.AllowResponse {
	if d.Why == quota.WhyUnknown {
		return refuse(pb.AllowResponse_REJECTED_SERVER_ERROR)
	}
	if overMaxKeys(d) {
		return refuse(pb.AllowResponse_REJECTED_TOO_MANY_BUCKETS)
	}
	if d.Allowed {
		return &pb.AllowResponse{Status: pb.AllowResponse_OK, TokensGranted: cost, WaitMillis: millisUp(d.Wait)}
	}
	st, ok := refusals[d.Why]
	if !ok {
		st = pb.AllowResponse_REJECTED_SERVER_ERROR
	}
	return refuse(st)
}

// overMaxKeys says whether a bucket was not made because its template has
// max_keys of them. To a soft limit of ours that is no reason to refuse, but to
// max_dynamic_buckets it is the one purpose. Nothing has been charged.
func overMaxKeys(d *quota.Decision) bool {
	l := d.Limit
	return d.Why == quota.WhyTooManyKeys && l != nil && l.MaxKeys > 0 && l.Enforcement == quota.Enforce && l.Fraction == 0
}

func refuse(st pb.AllowResponse_Status) *pb.AllowResponse { return &pb.AllowResponse{Status: st} }

// millisUp returns whole milliseconds, rounded up: rounded down, callers would
// go ahead before their tokens are there.
func millisUp(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return max(ms, 0)
}
