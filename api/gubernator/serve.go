package gubernator

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/quorate/quorate/api/gen/pb/gubernator"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// Namespace is the namespace of all limits of this protocol. Calls need the permission check in it.
const Namespace = "gubernator"

// maxRequests is the largest number of requests in one call.
const maxRequests = 1000

// Options configure a server. The zero value is valid.
type Options struct {
	// Seen is called concurrently with every decision, for metrics.
	Seen func(*quota.Decision)
	// Ended is called concurrently with the code of every request, and of every call that was
	// refused as a whole: see Codes.
	Ended func(code string)
	// May returns a status error if the caller of ctx lacks a permission in a namespace. Nil
	// permits everything to everybody.
	May func(ctx context.Context, p rbac.Permission, namespace string) error
	// Owner returns the owner of the caller of ctx, out of whose share its limits have their places on
	// the node. Nil, or "", means a caller that is not known.
	Owner func(ctx context.Context) string
	// Addresses makes the health check list the addresses of all nodes. Only nodes without
	// authentication should set it: the call is open to everybody.
	Addresses bool
	// Now is the clock; nil means the system clock.
	Now func() time.Time
}

// Codes of requests, for metrics.
const (
	codeUnder   = "under_limit"
	codeOver    = "over_limit"
	codeError   = "error"   // of one request
	codeInvalid = "invalid" // of a whole call
	codeDenied  = "denied"  // of a whole call
)

// Server serves the protocol. Its methods are safe for concurrent use.
type Server struct {
	pb.UnimplementedV1Server
	node Node
	opts Options
}

// New returns a server for a node.
func New(n Node, o Options) *Server {
	if o.Seen == nil {
		o.Seen = func(*quota.Decision) {}
	}
	if o.Ended == nil {
		o.Ended = func(string) {}
	}
	if o.Owner == nil {
		o.Owner = func(context.Context) string { return "" }
	}
	if o.May == nil {
		o.May = func(context.Context, rbac.Permission, string) error { return nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Server{node: n, opts: o}
}

// Register adds the service to a gRPC server. That server must ensure that callers of GetRateLimits
// have the permission check in Namespace.
func (s *Server) Register(srv grpc.ServiceRegistrar) { pb.RegisterV1Server(srv, s) }

// GetRateLimits decides each request on its own.
func (s *Server) GetRateLimits(ctx context.Context, req *pb.GetRateLimitsReq) (*pb.GetRateLimitsResp, error) {
	if n := len(req.Requests); n > maxRequests {
		s.opts.Ended(codeInvalid)
		return nil, status.Errorf(codes.OutOfRange, "requests: %d; at most %d in one call", n, maxRequests)
	}
	out := &pb.GetRateLimitsResp{Responses: make([]*pb.RateLimitResp, len(req.Requests))}
	batch := s.node.Batch()
	if len(req.Requests) == 1 {
		c := call{Server: s, ctx: ctx, batch: batch}
		out.Responses[0] = c.answer(req.Requests[0])
		return out, nil
	}
	// Requests wait for leaders concurrently, so that a call takes one hop instead of one hop per
	// request. Requests with the same name and key keep their order.
	var parts [maxBeside][]int
	for i, r := range req.Requests {
		p := maphash.Comparable(seed, [2]string{r.GetName(), r.GetUniqueKey()}) % maxBeside
		parts[p] = append(parts[p], i)
	}
	var wait sync.WaitGroup
	for _, part := range &parts {
		if len(part) > 0 {
			wait.Go(func() {
				c := call{Server: s, ctx: ctx, batch: batch}
				for _, i := range part {
					out.Responses[i] = c.answer(req.Requests[i])
				}
			})
		}
	}
	wait.Wait()
	return out, nil
}

// maxBeside is how many requests of a call are decided at a time.
const maxBeside = 64

var seed = maphash.MakeSeed()

// call decides requests of one call sequentially.
type call struct {
	*Server
	ctx   context.Context
	batch func([]quota.Call)
	at    time.Time // just before the last decision
	req   [1]quota.Request
	dec   [1]quota.Decision
	one   [1]quota.Call
}

// answer decides one request and counts it.
func (c *call) answer(r *pb.RateLimitReq) *pb.RateLimitResp {
	res, err := c.decide(r)
	switch {
	case err != nil:
		c.opts.Ended(codeError)
		return &pb.RateLimitResp{Error: err.Error()}
	case res.Status == pb.Status_OVER_LIMIT:
		c.opts.Ended(codeOver)
	default:
		c.opts.Ended(codeUnder)
	}
	return res
}

// HealthCheck reports whether the node can decide, like /readyz.
func (s *Server) HealthCheck(context.Context, *pb.HealthCheckReq) (*pb.HealthCheckResp, error) {
	st := s.node.Status()
	out := &pb.HealthCheckResp{Status: "healthy", PeerCount: int32(len(st.GetNodes()))}
	if !st.GetReady() {
		out.Status, out.Message = "unhealthy", st.GetReason()
	}
	if s.opts.Addresses {
		for _, n := range st.GetNodes() {
			out.LocalPeers = append(out.LocalPeers, &pb.PeerHealthResp{GrpcAddress: n.GrpcAddress})
			if n.Id == st.Node {
				out.AdvertiseAddress = n.GrpcAddress
			}
		}
	}
	return out, nil
}

// LiveCheck always answers.
func (s *Server) LiveCheck(context.Context, *pb.LiveCheckReq) (*pb.LiveCheckResp, error) {
	return &pb.LiveCheckResp{}, nil
}
