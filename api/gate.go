package api

import (
	"context"
	"errors"
	"iter"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/api/access"
	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/internal/audit"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
	"github.com/quorate/quorate/internal/fairshare"
)

// Gate says who makes a call and whether they may, and writes down what they did: the same for all transports.
type Gate struct {
	guard      *auth.Guard // nil: authentication is off
	identifier access.Identifier
	grants     access.Grants
	self       string // the node
	audit      *audit.Log
	denied     *prometheus.CounterVec
	// node has the limit that the API itself is under.
	node interface {
		Check(k quota.Key, cost int64) quota.Decision
		Limits() *quota.Limits
	}
	// again is how long the caller of a call that lasts is remembered, and so how long the
	// call outlives the trust in it.
	again time.Duration
}

func newGate(n coreNode, o *Options, denied *prometheus.CounterVec) *Gate {
	g := &Gate{guard: o.Guard, identifier: o.Identifier, grants: o.Grants, self: o.Self, audit: o.Audit, denied: denied, node: n, again: identifyAgain}
	if g.guard != nil {
		g.identifier, g.grants = byGuard{}, g.guard.Grants()
	}
	if g.identifier == nil {
		g.identifier = headerIdentity{}
	}
	if g.grants == nil {
		g.grants = access.Everybody{}
	}
	return g
}

// visit is one call, from the moment that its caller is known. It belongs to the
// goroutine that serves the call.
type visit struct {
	*Gate
	method  string
	rule    auth.Rule
	caller  *auth.Caller
	address string
	// requestID is what the caller calls the request; empty: nothing.
	requestID string
	// identify asks again who makes the call, while it lasts; nil where whoever made it was looked at before.
	identify func(ctx context.Context) (*auth.Caller, error)
	req      proto.Message
	res      proto.Message
	failed   error
}

// owner returns the owner that the call counts for: the identity if proven, else the address.
func (v *visit) owner() string {
	if v.caller.Proven() {
		return v.caller.Identity
	}
	return ownerOf(v.address)
}

type visitKey struct{}

// visitContext carries a call, and its caller where that is proven: one value for
// both, because every check has it.
type visitContext struct {
	context.Context
	visit *visit
}

// Value implements context.Context.
func (c visitContext) Value(key any) any {
	switch key.(type) {
	case visitKey:
		return c.visit
	case auth.Key:
		if c.visit.guard != nil {
			return c.visit.caller
		}
	}
	return c.Context.Value(key)
}

// visitOf returns the call that a context is of, nil outside of one.
func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// ended remembers how the call ended, for the audit log.
func (v *visit) ended(res proto.Message, f error) {
	if v != nil {
		v.res, v.failed = res, f
	}
}

// fromAuth maps what package auth says.
func fromAuth(err error) *apierr.Error {
	if f, ok := errors.AsType[*apierr.Error](err); ok {
		return f
	}
	if denied, ok := errors.AsType[*auth.DeniedError](err); ok {
		f := &apierr.Error{
			Code: codes.PermissionDenied, HTTP: http.StatusForbidden, Reason: "PERMISSION_DENIED", Detail: err.Error(),
			Meta: map[string]string{"permission": denied.Permission, "scope": string(denied.Scope), "identity": denied.Caller.Identity},
		}
		if denied.Caller.Credential == auth.None {
			f.Code, f.HTTP, f.Reason = codes.Unauthenticated, http.StatusUnauthorized, "NO_CREDENTIAL"
		}
		return f
	}
	return &apierr.Error{Code: codes.Unauthenticated, HTTP: http.StatusUnauthorized, Reason: "UNAUTHENTICATED", Detail: err.Error()}
}

// enter lets a call in, or not: whoever has the permission nowhere is sent away
// before the request is read. quick asks for nothing that could block.
func (s *Gate) enter(ctx context.Context, v *visit) (context.Context, error) {
	v.rule, _ = auth.RuleOf(v.method)
	if s.guard != nil {
		if err := s.guard.Enter(v.caller, v.method); err != nil {
			return ctx, fromAuth(err)
		}
	}
	if f := s.throttle(v); f != nil {
		return ctx, f
	}
	return visitContext{ctx, v}, nil
}

// admit looks at the request of a call that was let in.
func admit(ctx context.Context, req proto.Message) error {
	v := visitOf(ctx)
	if v == nil {
		return nil
	}
	v.req = req
	if v.guard == nil {
		return nil
	}
	if err := v.guard.Admit(v.caller, v.method, req); err != nil {
		return fromAuth(err)
	}
	return nil
}

// everywhere says whether the caller of ctx has a permission everywhere.
func (s *Gate) everywhere(ctx context.Context, p rbac.Permission) bool {
	v := visitOf(ctx)
	return s.guard == nil || v != nil && s.guard.Has(v.caller, p, rbac.Everywhere)
}

// mayIn says whether the caller of ctx has a permission in a namespace.
func (s *Gate) mayIn(ctx context.Context, p rbac.Permission, namespace string) bool {
	v := visitOf(ctx)
	return s.guard == nil || v != nil && s.guard.Has(v.caller, p, rbac.Namespace(namespace))
}

// isOpen says whether a call is for whoever comes, so that nobody has to be known:
// probes do not fail for a header that somebody has added.
func isOpen(method string) bool {
	r, _ := auth.RuleOf(method)
	return r.Need == auth.Open && !r.Control
}

// passes says whether a call needs no look: it is open to all; or everybody may do
// everything, and it is neither audited nor counted against the API's own limit.
func (s *Gate) passes(method string) bool {
	if s.guard == nil {
		r, _ := auth.RuleOf(method)
		return !r.Control && !r.Audited
	}
	return isOpen(method)
}

// fromStatus returns an error of gRPC as one of the API.
func fromStatus(err error) *apierr.Error {
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		return e
	}
	st := status.Convert(err)
	f := &apierr.Error{Code: st.Code(), Reason: st.Code().String(), Detail: st.Message()}
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			f.Reason = info.GetReason()
		}
	}
	return f
}

// admitChecks is admit for checks that were never a message.
func (s *Gate) admitChecks(ctx context.Context, checks ...check) error {
	return s.admitIn(ctx, func(yield func(string) bool) {
		for i := range checks {
			if !yield(checks[i].key.Namespace) {
				return
			}
		}
	})
}

// admitIn is admitChecks for checks in these namespaces.
func (s *Gate) admitIn(ctx context.Context, namespaces iter.Seq[string]) error {
	v := visitOf(ctx)
	if s.guard == nil || s.everywhere(ctx, rbac.Check) {
		return nil
	}
	for namespace := range namespaces {
		if err := s.guard.Check(v.caller, rbac.Check, rbac.Namespace(namespace), v.method); err != nil {
			return fromAuth(err)
		}
	}
	return nil
}

func tooManyBodies(owner string, full fairshare.Full) *apierr.Error {
	f := &apierr.Error{Code: codes.ResourceExhausted, HTTP: http.StatusServiceUnavailable, Reason: "TOO_MUCH_UNDER_WAY", Retry: time.Second}
	f.Detail = "this node is reading as many bytes of requests as it may; try again in a second"
	if full == fairshare.Each {
		f.Detail = "this node is reading as many bytes of requests of " + owner + " as one caller may have under way; wait for some to be answered"
	}
	return f
}

// ownerOf returns the owner that calls from an address without a proven identity count for: the
// address, or its network for IPv6, where callers can choose the rest of the address.
func ownerOf(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil {
		return "address:" + networkOf(ip).String()
	}
	return "address:" + address
}

func host(addr string) string {
	if h, _, err := net.SplitHostPort(addr); err == nil {
		return h
	}
	return addr
}
