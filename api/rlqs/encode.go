package rlqs

import (
	"math"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/quorate/quorate/api/rlqs/share"
)

// actionOf converts an assignment to the protocol's message.
func actionOf(id *pb.BucketId, a share.Assignment) *pb.RateLimitQuotaResponse_BucketAction {
	out := &pb.RateLimitQuotaResponse_BucketAction{BucketId: id}
	if a.Action == share.Abandon {
		out.BucketAction = &pb.RateLimitQuotaResponse_BucketAction_AbandonAction_{
			AbandonAction: &pb.RateLimitQuotaResponse_BucketAction_AbandonAction{},
		}
		return out
	}
	out.BucketAction = &pb.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction_{
		QuotaAssignmentAction: &pb.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction{
			AssignmentTimeToLive: durationpb.New(a.TTL),
			RateLimitStrategy:    strategyOf(a),
		},
	}
	return out
}

func strategyOf(a share.Assignment) *typev3.RateLimitStrategy {
	switch a.Action {
	case share.Bucket:
		return &typev3.RateLimitStrategy{Strategy: &typev3.RateLimitStrategy_TokenBucket{TokenBucket: &typev3.TokenBucket{
			MaxTokens:     uint32(min(a.Max, math.MaxUint32)),
			TokensPerFill: wrapperspb.UInt32(uint32(min(a.PerFill, math.MaxUint32))),
			FillInterval:  durationpb.New(a.Fill),
		}}}
	case share.DenyAll:
		return blanket(typev3.RateLimitStrategy_DENY_ALL)
	}
	return blanket(typev3.RateLimitStrategy_ALLOW_ALL)
}

func blanket(rule typev3.RateLimitStrategy_BlanketRule) *typev3.RateLimitStrategy {
	return &typev3.RateLimitStrategy{Strategy: &typev3.RateLimitStrategy_BlanketRule_{BlanketRule: rule}}
}
