package grpcapi

import (
	"cmp"
	"context"
	"crypto/tls"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/auth"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/tracing"
)

// grpcServer serves the services over gRPC, or to a Local.
type grpcServer struct {
	*api.Service
	anonymous *anonymousCalls
	// local says that the context already carries an authenticated caller, as for pages.
	local bool
}

// measuredAndGuarded is the interceptor of unary calls: it traces and measures them, and authorizes
// them.
func (s *grpcServer) measuredAndGuarded(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	start, parent := time.Now(), parentOf(ctx)
	ctx, span := s.Opts.Tracer.Serve(ctx, info.FullMethod, parent)
	res, err := s.guarded(ctx, req, info, handler)
	s.Meter.Observe("grpc", info.FullMethod, status.Code(err).String(), start, cmp.Or(span.Sampled(), api.SampledTrace(parent)))
	span.End(err)
	return res, err
}

// tapped identifies the caller once the headers of a gRPC call have arrived, so that a caller
// without the permission cannot make the node read its message. It leaves a JWT that has to be
// verified to the interceptors, because nothing may block here; such a call is charged, unless the
// JWT was verified before.
func (s *grpcServer) tapped(ctx context.Context, info *tap.Info) (context.Context, error) {
	if api.IsOpen(info.FullMethodName) {
		return ctx, nil
	}
	header := info.Header.Get("authorization")
	c, err := s.Guard.Quick(tlsState(ctx), header)
	known := c != nil
	if err == nil && !known {
		c = s.Guard.Before(header)
	}
	if err == nil && c != nil {
		err = s.Guard.AuthorizeCall(c, info.FullMethodName)
	}
	if err != nil {
		f := api.FromAuth(err)
		if c == nil {
			c = auth.UnverifiedCaller("")
		}
		s.Audit(&api.Call{Gate: s.Gate, Method: info.FullMethodName, Caller: c, Address: addressOf(ctx), RequestID: first(info.Header.Get(requestIDKey)), Failed: f})
		return ctx, f
	}
	switch {
	case known:
		return auth.With(ctx, c), nil
	case c != nil:
		return ctx, nil
	}
	return s.awaitVerification(ctx)
}

// arrive creates the Call of a gRPC call.
func (s *grpcServer) arrive(ctx context.Context, method string) (*api.Call, error) {
	v := &api.Call{Gate: s.Gate, Method: method, Caller: auth.From(ctx), Address: addressOf(ctx), RequestID: first(metadata.ValueFromIncomingContext(ctx, requestIDKey))}
	if !s.local {
		v.Identify = s.identify
	}
	switch {
	case s.Guard != nil && v.Caller == nil:
		var err error
		v.Caller, err = s.identify(ctx)
		verified(ctx)
		if err != nil {
			v.Caller = auth.UnverifiedCaller("")
			return v, api.FromAuth(err)
		}
	case s.Guard == nil:
		who, err := s.Identity(ctx)
		if err != nil { // the call itself returns the error if it needs an identity
			who = ""
		}
		v.Caller = auth.UnverifiedCaller(who)
	}
	return v, nil
}

// identify asks the guard for the caller.
func (s *grpcServer) identify(ctx context.Context) (*auth.Caller, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	return s.Guard.Identify(ctx, tlsState(ctx), md.Get("authorization"))
}

// guarded is the interceptor of unary calls.
func (s *grpcServer) guarded(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if s.Unguarded(info.FullMethod) {
		return next(ctx, req)
	}
	v, err := s.arrive(ctx, info.FullMethod)
	if err == nil {
		ctx, err = s.Authorize(ctx, v)
	}
	if m, ok := req.(proto.Message); ok && err == nil {
		err = api.AuthorizeRequest(ctx, m)
	}
	if err != nil {
		v.Failed = err
		s.Audit(v)
		return nil, err
	}
	res, err := next(ctx, req)
	if v.Rule.Audited {
		v.Res, _ = res.(proto.Message)
		v.Failed = err
		s.Audit(v)
	}
	return res, err
}

// guardedStream is the interceptor of streams.
func (s *grpcServer) guardedStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	unary := !info.IsClientStream && !info.IsServerStream
	if s.Unguarded(info.FullMethod) || unary || forEverybody(info.FullMethod) { // see openCalls
		return next(srv, stream)
	}
	ctx := stream.Context()
	v, err := s.arrive(ctx, info.FullMethod)
	if err == nil {
		ctx, err = s.Authorize(ctx, v)
	}
	if err != nil {
		v.Failed = err
		s.Audit(v)
		return err
	}
	ctx, stop := s.WhileAuthorized(ctx)
	now := time.Now()
	serve := func() error {
		return next(srv, &guardedStream{ServerStream: stream, ctx: ctx, grpcServer: s, received: now, sent: now})
	}
	if info.FullMethod == quoratev1.QuotaService_AllowStream_FullMethodName || v.Rule.Need == auth.Known {
		err = serveUntil(ctx, serve)
	} else {
		err = serve()
	}
	if gone := stop(); gone != nil {
		err = gone
	}
	if code := status.Code(err); v.Rule.Audited || code == codes.PermissionDenied || code == codes.Unauthenticated {
		v.Failed = err
		s.Audit(v)
	}
	return err
}

// serveUntil serves a stream until ctx ends. It is for handlers that wait in RecvMsg, which does not end with ctx, but once
// this function has returned.
func serveUntil(ctx context.Context, serve func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- serve() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

type guardedStream struct {
	grpc.ServerStream
	ctx context.Context
	*grpcServer
	received, sent time.Time // last checks of the caller, for either direction
}

// Context implements grpc.ServerStream.
func (s *guardedStream) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream. It authorizes every request of the stream.
func (s *guardedStream) RecvMsg(m any) error {
	receive := s.ServerStream.RecvMsg
	if api.CallOf(s.ctx).Rule.Need == auth.Known {
		receive = func(m any) error { return receiveSmall(s.ServerStream, m, 0) }
	}
	if err := receive(m); err != nil {
		return err
	}
	if err := s.StillAuthorized(s.ctx, &s.received); err != nil {
		return err
	}
	if req, ok := m.(proto.Message); ok {
		if err := api.AuthorizeRequest(s.ctx, req); err != nil {
			return err
		}
	}
	return nil
}

// SendMsg implements grpc.ServerStream. It sends nothing to a caller that is no longer authorized.
func (s *guardedStream) SendMsg(m any) error {
	if err := s.StillAuthorized(s.ctx, &s.sent); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
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
		return api.Host(p.Addr.String())
	}
	return ""
}

// ownerOfCall returns the owner of a gRPC call, and its connection.
func ownerOfCall(ctx context.Context) (owner, connection string) {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return "address:", ""
	}
	return api.OwnerOf(nil, api.Host(p.Addr.String())), p.Addr.String()
}

// parentOf returns the traceparent of a gRPC call, or "".
func parentOf(ctx context.Context) string {
	return first(metadata.ValueFromIncomingContext(ctx, tracing.Header))
}

// requestIDKey is the metadata with the caller's id of a request, for the audit log.
const requestIDKey = "x-request-id"

// first returns the first value of a metadata key, or "".
func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// TracedCall returns the id of the sampled trace of a gRPC call, or "".
func TracedCall(ctx context.Context) string { return api.SampledTrace(parentOf(ctx)) }
