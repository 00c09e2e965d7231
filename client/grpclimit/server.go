package grpclimit

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/extract"
	"github.com/quorate/quorate/client/internal/gate"
)

// Server returns both server interceptors, for grpc.NewServer.
func Server(l client.Limiter, opts ...ServerOption) []grpc.ServerOption {
	c := newServer(l, opts)
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(c.unaryServer), grpc.ChainStreamInterceptor(c.streamServer)}
}

// UnaryServerInterceptor checks every unary call. See the package documentation.
func UnaryServerInterceptor(l client.Limiter, opts ...ServerOption) grpc.UnaryServerInterceptor {
	return newServer(l, opts).unaryServer
}

// StreamServerInterceptor checks every stream, or with [PerMessage] every message that arrives. A
// refused message makes RecvMsg return a status, which the handler should return.
func StreamServerInterceptor(l client.Limiter, opts ...ServerOption) grpc.StreamServerInterceptor {
	return newServer(l, opts).streamServer
}

func newServer(l client.Limiter, opts []ServerOption) *config {
	c := &config{}
	c.Gate.Key = extract.RemoteIP(extract.Proxies{})
	for _, o := range opts {
		o.server(c)
	}
	if err := c.validate(l); err != nil {
		panic("grpclimit: " + err.Error()) // invariant: the program's own options
	}
	return c
}

// headers sets the metadata of a call: a grpc.ServerStream, or unary.
type headers interface {
	SetHeader(metadata.MD) error
	SetTrailer(metadata.MD)
}

type unary struct{ ctx context.Context }

func (u unary) SetHeader(md metadata.MD) error { return grpc.SetHeader(u.ctx, md) }
func (u unary) SetTrailer(md metadata.MD)      { grpc.SetTrailer(u.ctx, md) } //nolint:errcheck // as a stream's

// admit checks a message, sets the metadata, and returns the status if it does not pass.
func (c *config) admit(g *gate.Gate, h headers, call *extract.Call) error {
	res, outcome, err := g.Ask(extract.Request{Call: call}, "POST", call.Method)
	return c.answer(h, &res, outcome, err)
}

// enter is admit for a call; leave must be called at its end, whatever the outcome.
func (c *config) enter(g *gate.Gate, h headers, call *extract.Call) (leave func(), err error) {
	res, leave, outcome, err := g.Enter(extract.Request{Call: call}, "POST", call.Method)
	return leave, c.answer(h, &res, outcome, err)
}

// answer sets the metadata. A header that was sent already stays as it is.
func (c *config) answer(h headers, res *client.Result, outcome gate.Outcome, err error) error {
	switch outcome {
	case gate.Pass:
		if md := c.metadataOf(res); md != nil {
			h.SetHeader(md) //nolint:errcheck // of a stream whose header has gone
		}
	case gate.Refuse:
		h.SetTrailer(c.trailer(res))
	}
	return failure(res, outcome, err)
}

func (c *config) unaryServer(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if g := c.gateOf(info.FullMethod); g != nil {
		call := &extract.Call{Context: ctx, Method: info.FullMethod, Message: req}
		leave, err := c.enter(g, unary{ctx}, call)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	return next(ctx, req)
}

func (c *config) streamServer(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	g := c.gateOf(info.FullMethod)
	switch {
	case g == nil:
		return next(srv, ss)
	case c.message:
		return next(srv, &serverStream{ServerStream: ss, config: c, gate: g, method: info.FullMethod, first: first{headers: ss}})
	}
	leave, err := c.enter(g, ss, &extract.Call{Context: ss.Context(), Method: info.FullMethod})
	if err != nil {
		return err
	}
	defer leave()
	return next(srv, ss)
}

// serverStream checks each message that arrives.
type serverStream struct {
	grpc.ServerStream
	config *config
	gate   *gate.Gate
	method string
	first  first
}

// first passes on the first header and the first trailer of a stream. gRPC adds each further one to
// the same metadata, which would grow with the number of messages.
type first struct {
	headers
	header, trailer bool
}

func (f *first) SetHeader(md metadata.MD) error {
	if f.header {
		return nil
	}
	f.header = true
	return f.headers.SetHeader(md)
}

func (f *first) SetTrailer(md metadata.MD) {
	if !f.trailer {
		f.trailer = true
		f.headers.SetTrailer(md)
	}
}

// RecvMsg implements grpc.ServerStream.
func (s *serverStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.config.admit(s.gate, &s.first, &extract.Call{Context: s.Context(), Method: s.method, Message: m})
}
