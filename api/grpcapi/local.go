package grpcapi

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/api"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// Local is a connection to the services of a node in the same process, for pages that the node
// serves. It authorizes, audits, validates and counts a call against quorate/api as if the call
// came over gRPC. The context carries the caller (auth.With). Nothing else proves the caller, so
// the code that creates the context must ask the guard first. Local has the services that pages
// need: all but QuotaService and MemberService. Its methods are safe for concurrent use.
type Local struct {
	server  *grpcServer
	unary   map[string]localMethod
	streams map[string]localStream
}

type localMethod struct {
	impl any
	desc grpc.MethodDesc
}

type localStream struct {
	impl any
	desc grpc.StreamDesc
}

var (
	_ grpc.ClientConnInterface = (*Local)(nil)
	_ grpc.ServiceRegistrar    = (*Local)(nil)
)

// NewLocal returns a connection to the services of s.
func NewLocal(s *api.Service) *Local {
	l := &Local{server: &grpcServer{Service: s, local: true}, unary: map[string]localMethod{}, streams: map[string]localStream{}}
	registerControl(l, l.server.Service)
	return l
}

// registerControl registers the services for operators, at a server or at a Local.
func registerControl(srv grpc.ServiceRegistrar, s *api.Service) {
	quoratev1.RegisterLimitServiceServer(srv, s.Limits)
	quoratev1.RegisterRateServiceServer(srv, s.Rates)
	quoratev1.RegisterClusterServiceServer(srv, s.Cluster)
	quoratev1.RegisterOverrideServiceServer(srv, s.Overrides)
	quoratev1.RegisterKeyServiceServer(srv, s.Keys)
	quoratev1.RegisterEventServiceServer(srv, s.Events)
	quoratev1.RegisterAccountAdminServiceServer(srv, s.AccountAdmin)
	quoratev1.RegisterSecurityServiceServer(srv, s.Security)
}

// RegisterService implements grpc.ServiceRegistrar.
func (l *Local) RegisterService(desc *grpc.ServiceDesc, impl any) {
	for _, m := range desc.Methods {
		l.unary["/"+desc.ServiceName+"/"+m.MethodName] = localMethod{impl, m}
	}
	for _, s := range desc.Streams {
		l.streams["/"+desc.ServiceName+"/"+s.StreamName] = localStream{impl, s}
	}
}

// Invoke implements grpc.ClientConnInterface. It copies messages, so that neither side sees later
// changes of the other.
func (l *Local) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	m, ok := l.unary[method]
	if !ok {
		return status.Error(codes.Unimplemented, method+" is not served in this process")
	}
	info := &grpc.UnaryServerInfo{Server: m.impl, FullMethod: method}
	guarded := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		return l.server.guarded(ctx, req, info, next)
	}
	res, err := m.desc.Handler(m.impl, ctx, func(to any) error { return copyMessage(to, args) }, guarded)
	if err != nil {
		return asStatus(err)
	}
	return copyMessage(reply, res)
}

// asStatus converts an error as a gRPC server does.
func asStatus(err error) error {
	if st, ok := status.FromError(err); ok {
		return st.Err()
	}
	return status.FromContextError(err).Err()
}

var errNoMessage = errors.New("is not a protobuf message")

func copyMessage(to, from any) error {
	a, ok := to.(proto.Message)
	b, okToo := from.(proto.Message)
	if !ok || !okToo {
		return status.Error(codes.Internal, errNoMessage.Error())
	}
	proto.Reset(a)
	proto.Merge(a, b)
	return nil
}

// NewStream implements grpc.ClientConnInterface, for calls that return a stream of answers.
func (l *Local) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	s, ok := l.streams[method]
	if !ok || s.desc.ClientStreams {
		return nil, status.Error(codes.Unimplemented, method+" is not served in this process")
	}
	p := &pipe{ctx: ctx, asked: make(chan any, 1), answers: make(chan any), ended: make(chan struct{})}
	go func() {
		info := &grpc.StreamServerInfo{FullMethod: method, IsServerStream: true}
		p.err = l.server.guardedStream(s.impl, serverEnd{p}, info, s.desc.Handler)
		close(p.ended)
	}()
	return p, nil
}

// pipe is the client's end of a stream of answers. It holds at most one message in each direction;
// SendMsg of an answer blocks until the client receives it or ctx ends.
type pipe struct {
	ctx     context.Context
	asked   chan any
	answers chan any
	ended   chan struct{}
	err     error // valid once ended is closed
	once    sync.Once
}

// Header implements grpc.ClientStream; headers are not supported.
func (*pipe) Header() (metadata.MD, error) { return nil, nil }

// Trailer implements grpc.ClientStream; trailers are not supported.
func (*pipe) Trailer() metadata.MD { return nil }

// CloseSend implements grpc.ClientStream.
func (p *pipe) CloseSend() error {
	p.once.Do(func() { close(p.asked) })
	return nil
}

// Context implements grpc.ClientStream.
func (p *pipe) Context() context.Context { return p.ctx }

// SendMsg implements grpc.ClientStream, for the only request.
func (p *pipe) SendMsg(m any) error {
	p.asked <- m
	return nil
}

// RecvMsg implements grpc.ClientStream.
func (p *pipe) RecvMsg(m any) error {
	select {
	case from := <-p.answers:
		return copyMessage(m, from)
	case <-p.ended:
		if p.err != nil {
			return asStatus(p.err)
		}
		return io.EOF
	}
}

// serverEnd is the server's end of a pipe.
type serverEnd struct{ p *pipe }

func (serverEnd) SetHeader(metadata.MD) error  { return nil }
func (serverEnd) SendHeader(metadata.MD) error { return nil }
func (serverEnd) SetTrailer(metadata.MD)       {}
func (e serverEnd) Context() context.Context   { return e.p.ctx }

// SendMsg copies the message, because the sender may reuse it.
func (e serverEnd) SendMsg(m any) error {
	from, ok := m.(proto.Message)
	if !ok {
		return status.Error(codes.Internal, errNoMessage.Error())
	}
	select {
	case e.p.answers <- proto.Clone(from):
		return nil
	case <-e.p.ctx.Done():
		return status.FromContextError(e.p.ctx.Err()).Err()
	}
}

func (e serverEnd) RecvMsg(m any) error {
	select {
	case from, ok := <-e.p.asked:
		if !ok {
			return io.EOF
		}
		return copyMessage(m, from)
	case <-e.p.ctx.Done():
		return status.FromContextError(e.p.ctx.Err()).Err()
	}
}
