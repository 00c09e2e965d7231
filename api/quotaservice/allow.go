package quotaservice

import (
	"context"
	"time"

	"google.golang.org/grpc"

	pb "github.com/quorate/quorate/api/gen/quotaservice"
	"github.com/quorate/quorate/internal/quota"
)

// Register adds QuotaService to a gRPC server. seen, unless nil, is called with every decision,
// possibly concurrently, for metrics.
func Register(srv grpc.ServiceRegistrar, n Node, seen func(*quota.Decision)) {
	if seen == nil {
		seen = func(*quota.Decision) {}
	}
	pb.RegisterQuotaServiceServer(srv, &server{node: n, seen: seen})
}

type server struct {
	pb.UnimplementedQuotaServiceServer
	node Node
	seen func(*quota.Decision)
}

// Allow never returns an error: clients expect refusals as statuses.
func (s *server) Allow(_ context.Context, req *pb.AllowRequest) (*pb.AllowResponse, error) {
	cost, st := costOf(req)
	if st != pb.AllowResponse_OK {
		return refuse(st), nil
	}
	d := quota.Decision{Why: quota.WhyNoLimit}
	if key, ok := keyOf(s.node.Limits(), req.Namespace, req.BucketName); ok {
		reqs := [1]quota.Request{{Key: key, Cost: cost, MaxWait: waitOf(req), NeedsBucket: true}}
		var out [1]quota.Decision
		s.node.Decide(reqs[:], out[:])
		d = out[0]
	}
	res := answer(&d, cost)
	d.Allowed = res.Status == pb.AllowResponse_OK // count the answer that the caller gets
	s.seen(&d)
	return res, nil
}

// costOf validates a request and returns its cost.
func costOf(req *pb.AllowRequest) (int64, pb.AllowResponse_Status) {
	n := req.TokensRequested
	switch {
	case req.Namespace == "" || req.BucketName == "" || len(req.BucketName) > maxName || n < 0:
		return 0, pb.AllowResponse_REJECTED_INVALID_REQUEST
	case n > quota.MaxTokens:
		return 0, pb.AllowResponse_REJECTED_TOO_MANY_TOKENS_REQUESTED
	}
	return max(n, 1), pb.AllowResponse_OK
}

// waitOf returns the longest wait that the caller accepts. The node uses the limit's own wait if
// that is shorter.
func waitOf(req *pb.AllowRequest) time.Duration {
	if !req.MaxWaitTimeOverride {
		return quota.LimitsWait
	}
	ms := min(max(req.MaxWaitMillisOverride, 0), quota.MaxPause.Milliseconds())
	return time.Duration(ms) * time.Millisecond
}
