package grpclimit

import (
	"context"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/extract"
	"github.com/quorate/quorate/client/internal/gate"
)

// Client returns both client interceptors, for grpc.NewClient.
func Client(l client.Limiter, opts ...ClientOption) []grpc.DialOption {
	c := newClient(l, opts)
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.unaryClient), grpc.WithChainStreamInterceptor(c.streamClient)}
}

// UnaryClientInterceptor checks every unary call before it is made. A refused call is not sent; its
// status is the same as from a server.
func UnaryClientInterceptor(l client.Limiter, opts ...ClientOption) grpc.UnaryClientInterceptor {
	return newClient(l, opts).unaryClient
}

// StreamClientInterceptor checks every stream before it is opened, or with [PerMessage] every
// message before it is sent. A refused message cancels the stream.
func StreamClientInterceptor(l client.Limiter, opts ...ClientOption) grpc.StreamClientInterceptor {
	return newClient(l, opts).streamClient
}

func newClient(l client.Limiter, opts []ClientOption) *config {
	c := &config{}
	c.Gate.Key = extract.Host()
	for _, o := range opts {
		o.client(c)
	}
	if err := c.validate(l); err != nil {
		panic("grpclimit: " + err.Error()) // invariant: the program's own options
	}
	return c
}

// await waits until a call or a message may proceed.
func (c *config) await(g *gate.Gate, call *extract.Call) error {
	res, outcome, err := gate.Turn(call.Context, c.wait, func() (client.Result, gate.Outcome, error) {
		return g.Ask(extract.Request{Call: call}, "POST", call.Method)
	})
	return failure(&res, outcome, err)
}

func (c *config) unaryClient(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if g := c.gateOf(method); g != nil {
		call := &extract.Call{Context: ctx, Method: method, Message: req, Outgoing: true, Target: cc.Target()}
		if err := c.await(g, call); err != nil {
			return err
		}
	}
	return next(ctx, method, req, reply, cc, opts...)
}

func (c *config) streamClient(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	g := c.gateOf(method)
	if g == nil {
		return next(ctx, desc, cc, method, opts...)
	}
	call := extract.Call{Context: ctx, Method: method, Outgoing: true, Target: cc.Target()}
	if !c.message {
		if err := c.await(g, &call); err != nil {
			return nil, err
		}
		return next(ctx, desc, cc, method, opts...)
	}
	ctx, cancel := context.WithCancel(ctx)
	call.Context = ctx
	cs, err := next(ctx, desc, cc, method, opts...)
	if err != nil {
		cancel()
		return nil, err
	}
	return &clientStream{ClientStream: cs, config: c, gate: g, call: call, single: !desc.ServerStreams, cancel: cancel}, nil
}

// clientStream checks each message before it is sent.
type clientStream struct {
	grpc.ClientStream
	config *config
	gate   *gate.Gate
	call   extract.Call
	single bool               // the response is a single message
	cancel context.CancelFunc // called at the end of the stream
}

// SendMsg implements grpc.ClientStream.
func (s *clientStream) SendMsg(m any) error {
	call := s.call
	call.Message = m
	if err := s.config.await(s.gate, &call); err != nil {
		s.cancel()
		return err
	}
	return s.ClientStream.SendMsg(m)
}

// RecvMsg implements grpc.ClientStream.
func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil || s.single {
		s.cancel()
	}
	return err
}
