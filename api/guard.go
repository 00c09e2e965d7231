package api

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/internal/rbac"
)

// visit is one call, from the moment that its caller is known. It belongs to the
// goroutine that serves the call.
type visit struct {
	*service
	method  string
	rule    auth.Rule
	caller  *auth.Caller
	address string
	id      string        // of the request, as the caller says it; empty: none
	http    *http.Request // nil: it came by gRPC, or from this process
	req     proto.Message
	res     proto.Message
	failed  error
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
func (s *service) enter(ctx context.Context, v *visit) (context.Context, error) {
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
func (s *service) everywhere(ctx context.Context, p rbac.Permission) bool {
	v := visitOf(ctx)
	return s.guard == nil || v != nil && s.guard.Has(v.caller, p, rbac.Everywhere)
}

// mayIn says whether the caller of ctx has a permission in a namespace.
func (s *service) mayIn(ctx context.Context, p rbac.Permission, namespace string) bool {
	v := visitOf(ctx)
	return s.guard == nil || v != nil && s.guard.Has(v.caller, p, rbac.Namespace(namespace))
}

// tapped establishes who calls when the headers of a gRPC call have come, so that whoever may not make
// the call cannot make the node read its message. A JWT that has to be verified is left for the
// interceptors, because nothing may wait here: its call is charged, unless the JWT was good before.
func (s *service) tapped(ctx context.Context, info *tap.Info) (context.Context, error) {
	if isOpen(info.FullMethodName) {
		return ctx, nil
	}
	header := info.Header.Get("authorization")
	c, err := s.guard.Quick(tlsState(ctx), header)
	known := c != nil
	if err == nil && !known {
		c = s.guard.Before(header)
	}
	if err == nil && c != nil {
		err = s.guard.Enter(c, info.FullMethodName)
	}
	if err != nil {
		f := fromAuth(err)
		s.note(&visit{service: s, method: info.FullMethodName, caller: orAnonymous(c), address: addressOf(ctx), failed: f})
		return ctx, f
	}
	switch {
	case known:
		return auth.With(ctx, c), nil
	case c != nil:
		return ctx, nil
	}
	ctx, f := s.awaitVerification(ctx)
	if f != nil {
		return ctx, f
	}
	return ctx, nil
}

func orAnonymous(c *auth.Caller) *auth.Caller {
	if c == nil {
		return auth.Spoken("")
	}
	return c
}

// isOpen says whether a call is for whoever comes, so that nobody has to be known:
// probes do not fail for a header that somebody has added.
func isOpen(method string) bool {
	r, _ := auth.RuleOf(method)
	return r.Need == auth.Open && !r.Control
}

// arrive makes the visit of a gRPC call.
func (s *service) arrive(ctx context.Context, method string) (*visit, error) {
	v := &visit{service: s, method: method, caller: auth.From(ctx), address: addressOf(ctx)}
	switch {
	case s.guard != nil && v.caller == nil:
		var err error
		v.caller, err = v.identify(ctx)
		verified(ctx)
		if err != nil {
			v.caller = orAnonymous(nil)
			return v, fromAuth(err)
		}
	case s.guard == nil:
		who, f := s.caller(ctx)
		if f != nil { // the call itself will say so, if it asks
			who = ""
		}
		v.caller = auth.Spoken(who)
	}
	return v, nil
}

// guarded is the interceptor of unary calls.
func (s *service) guarded(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if s.passes(info.FullMethod) {
		return next(ctx, req)
	}
	v, f := s.arrive(ctx, info.FullMethod)
	if f == nil {
		ctx, f = s.enter(ctx, v)
	}
	if m, ok := req.(proto.Message); ok && f == nil {
		f = admit(ctx, m)
	}
	if f != nil {
		v.failed = f
		s.note(v)
		return nil, f
	}
	res, err := next(ctx, req)
	if v.rule.Audited {
		v.res, _ = res.(proto.Message)
		v.failed = err
		s.note(v)
	}
	return res, err
}

// passes says whether a call needs no look: it is open to all; or everybody may do
// everything, and it is neither audited nor counted against the API's own limit.
func (s *service) passes(method string) bool {
	if s.guard == nil {
		r, _ := auth.RuleOf(method)
		return !r.Control && !r.Audited
	}
	return isOpen(method)
}

// guardedStream is the interceptor of streams.
func (s *service) guardedStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	unary := !info.IsClientStream && !info.IsServerStream
	if s.passes(info.FullMethod) || unary || forEverybody(info.FullMethod) { // see openCalls
		return next(srv, stream)
	}
	ctx := stream.Context()
	v, f := s.arrive(ctx, info.FullMethod)
	if f == nil {
		ctx, f = s.enter(ctx, v)
	}
	if f != nil {
		v.failed = f
		s.note(v)
		return f
	}
	err := next(srv, &guardedStream{ServerStream: stream, ctx: ctx, service: s, known: time.Now()})
	if code := status.Code(err); v.rule.Audited || code == codes.PermissionDenied || code == codes.Unauthenticated {
		v.failed = err
		s.note(v)
	}
	return err
}

type guardedStream struct {
	grpc.ServerStream
	ctx context.Context
	*service
	known time.Time // when it was looked at who calls
}

// Context implements grpc.ServerStream.
func (s *guardedStream) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream. Every request of the stream is looked at.
func (s *guardedStream) RecvMsg(m any) error {
	receive := s.ServerStream.RecvMsg
	if visitOf(s.ctx).rule.Need == auth.Known {
		receive = func(m any) error { return receiveSmall(s.ServerStream, m, 0) }
	}
	if err := receive(m); err != nil {
		return err
	}
	if f := s.still(s.ctx, &s.known); f != nil {
		return f
	}
	if req, ok := m.(proto.Message); ok {
		if f := admit(s.ctx, req); f != nil {
			return f
		}
	}
	return nil
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

func tlsState(ctx context.Context) *tls.ConnectionState {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			return &info.State
		}
	}
	return nil
}

// addressOf returns the host that a gRPC call comes from.
func addressOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return host(p.Addr.String())
	}
	return ""
}

func host(addr string) string {
	if h, _, err := net.SplitHostPort(addr); err == nil {
		return h
	}
	return addr
}

// methodOf is a route's name in the table of permissions.
func (r *route) name() string {
	if r.rpc != "" {
		return "/quorate.v1." + strings.Replace(r.rpc, ".", "/", 1)
	}
	return r.method + " " + r.path
}

// guardedRoute is what interceptors are for gRPC.
func (r *router) guardedRoute(name string, next handler) handler {
	if r.passes(name) {
		return func(w http.ResponseWriter, req *http.Request) int {
			if f := fromHere(req, name, r.guard != nil); f != nil && name != Console { // the console answers with a page
				return writeFault(w, f)
			}
			// The console reads bodies of signed-in callers only, but for the sign-in form.
			stranger := r.guard != nil && (name != Console || req.URL.Path == signInPath)
			if r.bodies.counts(req, stranger) {
				defer r.bodies.hold(w, req, ownerOf(host(req.RemoteAddr)), stranger)()
			}
			return next(w, req)
		}
	}
	return func(w http.ResponseWriter, req *http.Request) int {
		v := &visit{service: r.service, method: name, address: host(req.RemoteAddr), id: req.Header.Get("X-Request-Id"), http: req}
		ctx, f := r.arriveHTTP(req, v)
		if f == nil {
			ctx, f = r.enter(ctx, v)
		}
		if f == nil {
			f = fromHere(req, name, r.guard != nil)
		}
		if f != nil {
			v.failed = f
			r.note(v)
			return writeFault(w, f)
		}
		if stranger := r.guard != nil && v.caller.Credential == auth.None; r.bodies.counts(req, stranger) {
			defer r.bodies.hold(w, req, v.owner(), stranger)()
		}
		code := next(w, req.WithContext(ctx))
		if code >= http.StatusBadRequest && v.failed == nil {
			v.failed = &apierr.Error{HTTP: code, Reason: http.StatusText(code)} // the call was not made: those that are say how they ended
		}
		if v.rule.Audited || v.failed != nil && fromStatus(v.failed).Denied() {
			r.note(v)
		}
		return code
	}
}

func (r *router) arriveHTTP(req *http.Request, v *visit) (context.Context, error) {
	ctx := req.Context()
	if r.guard == nil {
		who, f := r.service.caller(authorContext(req))
		if f != nil {
			who = ""
		}
		v.caller = auth.Spoken(who)
		return ctx, nil
	}
	c, err := v.identify(ctx)
	if err != nil {
		v.caller = orAnonymous(nil)
		return ctx, fromAuth(err)
	}
	v.caller = c
	return ctx, nil
}
