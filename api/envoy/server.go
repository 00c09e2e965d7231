package envoy

import (
	"context"
	"slices"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/api/front"
	"github.com/quorate/quorate/internal/descriptor"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// Short names for the generated types.
type (
	request    = ratelimitv3.RateLimitRequest
	response   = ratelimitv3.RateLimitResponse
	statusOf   = ratelimitv3.RateLimitResponse_DescriptorStatus
	limitOf    = ratelimitv3.RateLimitResponse_RateLimit
	unitOf     = ratelimitv3.RateLimitResponse_RateLimit_Unit
	statusCode = ratelimitv3.RateLimitResponse_Code
)

const (
	okCode   = ratelimitv3.RateLimitResponse_OK
	overCode = ratelimitv3.RateLimitResponse_OVER_LIMIT
	// noCode is the status of a descriptor whose limit the node has no room for: it was not counted.
	noCode = ratelimitv3.RateLimitResponse_UNKNOWN
)

// Options configure a Server.
type Options struct {
	// Rules returns the rules that are used unchanged; a nil function, or nil rules, means none. It
	// is called for every request, concurrently.
	Rules func() *Rules
	// Overrides permits requests to carry limits, in a descriptor's limit, in
	// domains that have rules or limits.
	Overrides bool
	// Owner returns the owner of the caller of ctx, out of whose share its own limits have their
	// places on the node. Nil, or "", means a caller that is not known: only the shares of the domains
	// bound it.
	Owner func(ctx context.Context) string
	// Headers selects the fields that the proxy adds to its answers.
	Headers Headers
	// Seen is called with every decision, one for each descriptor with a limit, possibly
	// concurrently; nil ignores them.
	Seen func(*quota.Decision)
	// Ended is called with the outcome of every request: ok, over_limit, or the name of a gRPC
	// code; nil ignores it.
	Ended func(code string)
	// Now is the clock for the ends of unused windows; nil means the system clock.
	Now func() time.Time
	// Hits counts the hits of rules that are used unchanged; nil counts nothing.
	Hits *Hits
	// May returns a status error if the caller of ctx lacks a permission in a namespace. Nil permits
	// everything to everybody.
	May func(ctx context.Context, p rbac.Permission, namespace string) error
}

// Server answers ShouldRateLimit. Its methods are safe for concurrent use.
type Server struct {
	ratelimitv3.UnimplementedRateLimitServiceServer
	node   Node
	o      Options
	finder front.Finder
}

// New returns a server for a node.
func New(n Node, o Options) *Server {
	if o.Rules == nil {
		o.Rules = func() *Rules { return nil }
	}
	if o.Seen == nil {
		o.Seen = func(*quota.Decision) {}
	}
	if o.Ended == nil {
		o.Ended = func(string) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Owner == nil {
		o.Owner = func(context.Context) string { return "" }
	}
	if o.May == nil {
		o.May = func(context.Context, rbac.Permission, string) error { return nil }
	}
	return &Server{node: n, o: o}
}

// Register adds the service to a gRPC server. That server must ensure that callers have the
// permission check in the namespace of the domain.
func (s *Server) Register(srv grpc.ServiceRegistrar) {
	ratelimitv3.RegisterRateLimitServiceServer(srv, s)
}

// ShouldRateLimit decides every descriptor on its own: a descriptor over its limit does not keep
// the others from being charged. Tokens are given back before the other descriptors are decided, and
// use after the fact that does not fit is charged when all are decided, in whatever order the request
// lists them. It returns INVALID_ARGUMENT for an invalid request, FAILED_PRECONDITION for a limit that
// cannot be decided this way, and PERMISSION_DENIED if it gives back tokens and the caller lacks the
// permission report; such a call charges nothing. It returns RESOURCE_EXHAUSTED if the node has no room
// for the limit of a descriptor and no other descriptor is over its limit: the proxy then does what it
// is set to do without an answer. The others are charged, because the proxy may let the request pass.
func (s *Server) ShouldRateLimit(ctx context.Context, req *request) (*response, error) {
	res, err := s.decide(ctx, req)
	switch {
	case err != nil:
		s.o.Ended(codeWord(status.Code(err)))
	case res.OverallCode == overCode:
		s.o.Ended("over_limit")
	default:
		s.o.Ended("ok")
	}
	return res, err
}

func (s *Server) decide(ctx context.Context, req *request) (*response, error) {
	if err := check(req); err != nil {
		return nil, err
	}
	targets, err := s.targets(req)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(targets, gives) {
		if err := s.o.May(ctx, rbac.Report, descriptor.Namespace(req.Domain)); err != nil {
			return nil, err
		}
	}
	res := &response{Statuses: make([]*statusOf, len(targets))}
	var total overall
	var headers headers
	now := s.o.Now()
	unmet := -1 // a descriptor that was not counted
	outcomes, decisions := s.chargeAll(ctx, targets)
	for i := range targets {
		t, code, d := &targets[i], outcomes[i], decisions[i]
		if code == noCode {
			unmet = i
		}
		res.Statuses[i] = t.status(code, d, now)
		total.add(t, code)
		if d != nil {
			if !t.negative { // a refund decides nothing
				s.o.Seen(d)
			}
			s.o.Hits.add(t, d)
			headers.add(t, d, now)
		}
	}
	res.OverallCode = total.code()
	if unmet >= 0 && res.OverallCode != overCode {
		return nil, status.Errorf(codes.ResourceExhausted, "descriptors[%d]: was not counted: the node has no room for another limit that arrives with requests or is in a file of envoyproxy/ratelimit; give some of them the same numbers, or define them in a limit file", unmet)
	}
	res.ResponseHeadersToAdd = headers.fields(s.o.Headers, res.OverallCode)
	return res, nil
}

// overall combines the codes of all descriptors.
type overall struct{ over, quota, quotaOver int }

func (o *overall) add(t *target, code statusCode) {
	switch {
	case t.quota():
		o.quota++
		if code == overCode {
			o.quotaOver++
		}
	case code == overCode:
		o.over++
	}
}

// code returns OVER_LIMIT if one descriptor is over, or if all descriptors in quota mode are.
func (o *overall) code() statusCode {
	if o.over > 0 || o.quota > 0 && o.quota == o.quotaOver {
		return overCode
	}
	return okCode
}

// codeWord returns the name of a gRPC code in metrics.
func codeWord(c codes.Code) string {
	switch c {
	case codes.InvalidArgument:
		return "invalid_argument"
	case codes.FailedPrecondition:
		return "failed_precondition"
	case codes.PermissionDenied:
		return "permission_denied"
	case codes.Unauthenticated:
		return "unauthenticated"
	case codes.ResourceExhausted:
		return "resource_exhausted"
	}
	return "unknown"
}
