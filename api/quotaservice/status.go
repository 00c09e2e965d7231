package quotaservice

import (
	"time"

	pb "github.com/quorate/quorate/api/gen/quotaservice"
	"github.com/quorate/quorate/internal/quota"
)

// refusals maps each reason of a refusal to its status in quotaservice. A missing reason is a
// server fault: REJECTED_SERVER_ERROR.
var refusals = map[quota.Why]pb.AllowResponse_Status{
	quota.WhyNoLimit:     pb.AllowResponse_REJECTED_NO_BUCKET,
	quota.WhyTooManyKeys: pb.AllowResponse_REJECTED_TOO_MANY_BUCKETS,

	// No wait would help.
	quota.WhyOverBurst:   pb.AllowResponse_REJECTED_TOO_MANY_TOKENS_REQUESTED,
	quota.WhyOverMaxCost: pb.AllowResponse_REJECTED_TOO_MANY_TOKENS_REQUESTED,
	quota.WhyBanned:      pb.AllowResponse_REJECTED_TOO_MANY_TOKENS_REQUESTED,
	quota.WhyUseAcquire:  pb.AllowResponse_REJECTED_INVALID_REQUEST,

	// A later request may pass, but not within the longest wait. A node without a leader answers
	// the same: it has no tokens to give, and clients go ahead after a server error.
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

// answer converts a decision to an answer. A request that was not decided is a server error,
// whatever the other fields of the decision are.
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

// overMaxKeys reports whether a bucket was not created because its template already has max_keys
// buckets. A soft limit of Quorate does not refuse for that reason, but refusing is the only
// purpose of max_dynamic_buckets. Nothing was charged.
func overMaxKeys(d *quota.Decision) bool {
	l := d.Limit
	return d.Why == quota.WhyTooManyKeys && l != nil && l.MaxKeys > 0 && l.Enforcement == quota.Enforce && l.Fraction == 0
}

func refuse(st pb.AllowResponse_Status) *pb.AllowResponse { return &pb.AllowResponse{Status: st} }

// millisUp returns whole milliseconds, rounded up: after a rounded down wait, callers would go
// ahead before their tokens exist.
func millisUp(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return max(ms, 0)
}
