package api

import (
	"context"
	"errors"
	"iter"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/api/access"
	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/internal/audit"
	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
	"github.com/quorate/quorate/internal/subnet"
)

// Gate identifies callers, authorizes their calls and writes the audit log, in the same way for all
// transports.
type Gate struct {
	Guard  *auth.Guard // nil: authentication is off
	grants access.Grants
	self   string // the node
	audit  *audit.Log
	denied *prometheus.CounterVec
	// node decides checks of APILimit, the limit on the API itself.
	node interface {
		Check(k quota.Key, cost int64) quota.Decision
		Limits() *quota.Limits
	}
	// ReauthorizeEvery is how often the caller of a long call is authorized again, and so the longest time
	// that the call outlives a revoked permission.
	ReauthorizeEvery time.Duration
}

func newGate(n coreNode, o *Options, denied *prometheus.CounterVec) *Gate {
	g := &Gate{Guard: o.Guard, grants: o.Grants, self: o.Self, audit: o.Audit, denied: denied, node: n, ReauthorizeEvery: reauthorizeEvery}
	if g.Guard != nil {
		g.grants = g.Guard.Grants()
	}
	if g.grants == nil {
		g.grants = access.Everybody{}
	}
	return g
}

// Call is one call whose caller is known. Only the goroutine that serves the call uses it.
type Call struct {
	*Gate
	Method  string
	Rule    auth.Rule
	Caller  *auth.Caller
	Address string
	// RequestID is the caller's id of the request; it may be empty.
	RequestID string
	// Identify identifies the caller again during the call; nil keeps the first answer.
	Identify func(ctx context.Context) (*auth.Caller, error)
	// req is the last request, nil before the first. WhileAuthorized reads it while a stream receives.
	req    atomic.Pointer[proto.Message]
	Res    proto.Message
	Failed error
}

// request returns the last request, or nil.
func (v *Call) request() proto.Message {
	if req := v.req.Load(); req != nil {
		return *req
	}
	return nil
}

// Owner returns the owner to which shares are charged: the identity if proven, else the address.
func (v *Call) Owner() string { return OwnerOf(v.Caller, v.Address) }

// Owner returns the owner to which shares of the call of ctx are charged. Where no call is known,
// as with authentication off, it is the address of the peer over gRPC, or that of WithAddress; else
// it is "".
func Owner(ctx context.Context) string {
	if v := CallOf(ctx); v != nil {
		return v.Owner()
	}
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return OwnerOf(nil, Host(p.Addr.String()))
	}
	return ""
}

// WithAddress returns ctx with the address of a caller, for Owner where no call is known.
func WithAddress(ctx context.Context, address string) context.Context {
	if CallOf(ctx) != nil {
		return ctx
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return ctx
	}
	return peer.NewContext(ctx, &peer.Peer{Addr: net.TCPAddrFromAddrPort(at)})
}

type callKey struct{}

// callContext carries a call, and its caller if proven: one value for both, because every check
// creates one.
type callContext struct {
	context.Context
	call *Call
}

// Value implements context.Context.
func (c callContext) Value(key any) any {
	switch key.(type) {
	case callKey:
		return c.call
	case auth.Key:
		if c.call.Guard != nil {
			return c.call.Caller
		}
	}
	return c.Context.Value(key)
}

// CallOf returns the call of a context, or nil outside of a call.
func CallOf(ctx context.Context) *Call {
	v, _ := ctx.Value(callKey{}).(*Call)
	return v
}

// Answered records the answer of the call, for the audit log.
func (v *Call) Answered(res proto.Message) {
	if v != nil {
		v.Res = res
	}
}

// FromAuth maps an error of package auth to an API error.
func FromAuth(err error) *apierr.Error {
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

// Authorize lets a call in, or returns an error. Before the request is read, it refuses a caller
// that has the permission nowhere and a call that quorate/api refuses.
func (s *Gate) Authorize(ctx context.Context, v *Call) (context.Context, error) {
	v.Rule, _ = auth.RuleOf(v.Method)
	if s.Guard != nil {
		if err := s.Guard.AuthorizeCall(v.Caller, v.Method); err != nil {
			return ctx, FromAuth(err)
		}
	}
	if err := s.throttle(v); err != nil {
		return ctx, err
	}
	return callContext{ctx, v}, nil
}

// AuthorizeRequest checks the request of a call that Authorize let in.
func AuthorizeRequest(ctx context.Context, req proto.Message) error {
	v := CallOf(ctx)
	if v == nil {
		return nil
	}
	v.req.Store(&req)
	if v.Guard == nil {
		return nil
	}
	if err := v.Guard.AuthorizeRequest(v.Caller, v.Method, req); err != nil {
		return FromAuth(err)
	}
	return nil
}

// Everywhere reports whether the caller of ctx has a permission everywhere.
func (s *Gate) Everywhere(ctx context.Context, p rbac.Permission) bool {
	v := CallOf(ctx)
	return s.Guard == nil || v != nil && s.Guard.Has(v.Caller, p, rbac.Everywhere)
}

// mayIn reports whether the caller of ctx has a permission in a namespace.
func (s *Gate) mayIn(ctx context.Context, p rbac.Permission, namespace string) bool {
	v := CallOf(ctx)
	return s.Guard == nil || v != nil && s.Guard.Has(v.Caller, p, rbac.Namespace(namespace))
}

// Require returns an error if the caller of ctx lacks a permission in a namespace.
func (s *Gate) Require(ctx context.Context, p rbac.Permission, namespace string) error {
	v := CallOf(ctx)
	if s.Guard == nil || v == nil {
		return nil
	}
	if err := s.Guard.Check(v.Caller, p, rbac.Namespace(namespace), v.Method); err != nil {
		return FromAuth(err)
	}
	return nil
}

// IsOpen reports whether any caller may make a call, so that its caller need not be identified: a
// probe must not fail because of a header that a proxy added.
func IsOpen(method string) bool {
	r, _ := auth.RuleOf(method)
	return r.Need == auth.Open && !r.Control
}

// Unguarded reports whether a call needs no check: either it is open to all, or authentication is
// off and the call is neither audited nor counted against the API's own limit.
func (s *Gate) Unguarded(method string) bool {
	if s.Guard == nil {
		r, _ := auth.RuleOf(method)
		return !r.Control && !r.Audited
	}
	return IsOpen(method)
}

// FromStatus converts a gRPC error to an API error.
func FromStatus(err error) *apierr.Error {
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

// AuthorizeChecks authorizes checks that were never a message.
func (s *Gate) AuthorizeChecks(ctx context.Context, checks ...Check) error {
	return s.AuthorizeIn(ctx, func(yield func(string) bool) {
		for i := range checks {
			if !yield(checks[i].Namespace()) {
				return
			}
		}
	})
}

// AuthorizeIn authorizes checks in namespaces.
func (s *Gate) AuthorizeIn(ctx context.Context, namespaces iter.Seq[string]) error {
	if s.Guard == nil || s.Everywhere(ctx, rbac.Check) {
		return nil
	}
	for namespace := range namespaces {
		if err := s.Require(ctx, rbac.Check, namespace); err != nil {
			return err
		}
	}
	return nil
}

// TooManyBodies returns the error of a call whose body exceeds the memory for bodies of one caller,
// or of all callers.
func TooManyBodies(owner string, full fairshare.Full) *apierr.Error {
	f := &apierr.Error{Code: codes.ResourceExhausted, HTTP: http.StatusServiceUnavailable, Reason: "TOO_MUCH_UNDER_WAY", Retry: time.Second}
	f.Detail = "this node is reading as many bytes of requests as it may; try again in a second"
	if full == fairshare.Each {
		f.Detail = "this node is reading as many bytes of requests of " + owner + " as one caller may have under way; wait for some to be answered"
	}
	return f
}

// OwnerOf returns the owner to which the shares of a caller at an address are charged: the identity
// if proven, else the address. A caller of nil is unknown.
func OwnerOf(c *auth.Caller, address string) string {
	if c != nil && c.Authenticated() {
		return c.Identity
	}
	return "address:" + WithoutHost(address)
}

// WithoutHost returns an address without what its owner can choose: the port, and of an IPv6 address
// all but the network. It returns other texts as they are.
func WithoutHost(address string) string {
	ip, err := netip.ParseAddr(strings.Trim(Host(address), "[]"))
	if err != nil {
		return address
	}
	if network := subnet.Of(ip); network.Addr().Is6() {
		return network.String()
	}
	return ip.Unmap().String()
}

// Host returns the host of addr, or addr if it has no port.
func Host(addr string) string {
	if h, _, err := net.SplitHostPort(addr); err == nil {
		return h
	}
	return addr
}
