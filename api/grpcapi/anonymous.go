package grpcapi

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/internal/fairshare"
)

// Bounds of gRPC calls that need no permission (health, joining, whoami, roles, reflection), and of
// calls with a JWT that was never verified on this node.
const (
	MaxAnonymousMessage   = 32 << 10
	anonymousMessageTime  = 5 * time.Second // for the whole message
	maxAnonymous          = 1024            // open calls, in total
	MaxAnonymousOfAddress = 256             // open calls per address
	MaxAnonymousOfConn    = 32              // open calls per connection

	unverifiedBytes      = 256 << 20 // messages of calls with a JWT that was never verified, in total
	UnverifiedBytesOfOne = 64 << 20  // the same per address
	unverifiedTime       = 10 * time.Second
)

// anonymousCalls bounds the calls of unauthenticated callers on a node.
type anonymousCalls struct{ byAddress, byConnection, unverified *fairshare.Pool }

func newAnonymousCalls() *anonymousCalls {
	return &anonymousCalls{
		byAddress: fairshare.New(maxAnonymous, MaxAnonymousOfAddress), byConnection: fairshare.New(maxAnonymous, MaxAnonymousOfConn),
		unverified: fairshare.New(unverifiedBytes, UnverifiedBytesOfOne),
	}
}

// openCalls registers services so that callers without a permission can send only small messages.
// gRPC reads the message of a unary call, up to the bound of all methods, before any code of the
// method runs. openCalls therefore serves a unary method that needs no permission as a stream of
// one message.
type openCalls struct {
	grpc.ServiceRegistrar
	*grpcServer
	unary grpc.UnaryServerInterceptor
}

// RegisterService implements grpc.ServiceRegistrar.
func (o openCalls) RegisterService(desc *grpc.ServiceDesc, impl any) {
	d := *desc
	d.Streams = slices.Clone(d.Streams)
	for i, s := range d.Streams {
		if forEverybody("/" + d.ServiceName + "/" + s.StreamName) {
			d.Streams[i].Handler = func(srv any, stream grpc.ServerStream) error {
				return o.serveAnonymous(stream, func() error { return s.Handler(srv, anonymousStream{stream}) })
			}
		}
	}
	d.Methods = slices.DeleteFunc(slices.Clone(d.Methods), func(m grpc.MethodDesc) bool {
		if r, _ := auth.RuleOf("/" + d.ServiceName + "/" + m.MethodName); r.Need != auth.Open && r.Need != auth.Known {
			return false
		}
		d.Streams = append(d.Streams, grpc.StreamDesc{StreamName: m.MethodName, Handler: func(srv any, stream grpc.ServerStream) error {
			return o.serveAnonymous(stream, func() error {
				res, err := m.Handler(srv, stream.Context(), func(to any) error { return receiveSmall(stream, to, anonymousMessageTime) }, o.unary)
				if err != nil {
					return err
				}
				return stream.SendMsg(res)
			})
		}})
		return true
	})
	o.ServiceRegistrar.RegisterService(&d, impl)
}

// forEverybody reports whether a method needs no credential.
func forEverybody(method string) bool {
	r, _ := auth.RuleOf(method)
	return r.Need == auth.Open
}

// serveAnonymous serves a call that needs no permission. If its caller is unknown, the call counts
// towards the bounds of such calls.
func (s *grpcServer) serveAnonymous(stream grpc.ServerStream, serve func() error) error {
	ctx := stream.Context()
	if s.isKnown(ctx) {
		return serve()
	}
	owner, connection := ownerOfCall(ctx)
	if s.anonymous.byConnection.TryAcquire(connection, 1) != fairshare.NotFull {
		return tooManyAnonymous("this connection")
	}
	defer s.anonymous.byConnection.Release(connection, 1)
	if full := s.anonymous.byAddress.TryAcquire(owner, 1); full == fairshare.Each {
		return tooManyAnonymous(owner)
	} else if full != fairshare.NotFull {
		return tooManyAnonymous("all callers")
	}
	defer s.anonymous.byAddress.Release(owner, 1)
	return serve()
}

func tooManyAnonymous(of string) *apierr.Error {
	return &apierr.Error{
		Code: codes.ResourceExhausted, HTTP: http.StatusServiceUnavailable, Reason: "TOO_MANY_CALLS", Retry: time.Second,
		Detail: "too many calls without a credential are open of " + of + "; end some, or show a credential",
	}
}

// isKnown reports whether the call has a valid credential that can be verified without waiting.
func (s *grpcServer) isKnown(ctx context.Context) bool {
	if s.Guard == nil {
		return false
	}
	c := auth.From(ctx)
	if c == nil {
		md, _ := metadata.FromIncomingContext(ctx)
		var err error
		if c, err = s.Guard.Quick(tlsState(ctx), md.Get("authorization")); err != nil || c == nil {
			return false
		}
	}
	return c.Credential != auth.None
}

// anonymousStream receives only small messages.
type anonymousStream struct{ grpc.ServerStream }

// RecvMsg implements grpc.ServerStream.
func (s anonymousStream) RecvMsg(m any) error {
	return receiveSmall(s.ServerStream, m, anonymousMessageTime)
}

// messageReader reads a message's length before the message itself, which [grpc.ServerStream]
// cannot. gRPC's HTTP/2 transport implements it.
type messageReader interface {
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
}

// receiveSmall receives a message of at most MaxAnonymousMessage bytes within a time; 0 waits as
// long as the call lasts. It refuses a longer message before reading it. The call must end after an
// error.
func receiveSmall(stream grpc.ServerStream, to any, within time.Duration) error {
	from, ok := grpc.ServerTransportStreamFromContext(stream.Context()).(messageReader)
	message, isProto := to.(proto.Message)
	if !ok || !isProto {
		return status.Error(codes.Internal, "the transport of this call does not report the size of its messages")
	}
	done := make(chan error, 1)
	var data []byte
	go func() { // ends with the call at the latest
		var err error
		data, err = readSmall(from)
		done <- err
	}()
	var late <-chan time.Time
	if within > 0 {
		timer := time.NewTimer(within)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case err := <-done:
		if err != nil {
			return err
		}
	case <-late:
		return status.Errorf(codes.DeadlineExceeded, "the message of a call that needs no permission must arrive within %v", within)
	}
	if err := proto.Unmarshal(data, message); err != nil {
		return status.Errorf(codes.Internal, "the message cannot be decoded: %v", err)
	}
	return nil
}

func readSmall(from messageReader) ([]byte, error) {
	var header [5]byte
	if err := from.ReadMessageHeader(header[:]); err != nil {
		return nil, err
	}
	if header[0] != 0 {
		return nil, status.Error(codes.Unimplemented, "the message is compressed; send it uncompressed")
	}
	n := binary.BigEndian.Uint32(header[1:])
	if n > MaxAnonymousMessage {
		return nil, status.Errorf(codes.ResourceExhausted, "the message has %d bytes; at most %d are read for a call that needs no permission", n, MaxAnonymousMessage)
	}
	data, err := from.Read(int(n))
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	defer data.Free()
	return data.Materialize(), nil
}

// unverified marks a call whose JWT was never verified on this node. gRPC reads its message before
// the JWT is verified, so the call is charged to the caller's address, and the message must arrive
// within unverifiedTime.
type unverified struct{ verified func() }

type unverifiedKey struct{}

// awaitVerification charges the call to its address and returns a context for verified. The context
// ends after unverifiedTime unless verified is called.
func (s *grpcServer) awaitVerification(ctx context.Context) (context.Context, error) {
	owner, _ := ownerOfCall(ctx)
	if full := s.anonymous.unverified.TryAcquire(owner, MaxGRPCMessage); full != fairshare.NotFull {
		return ctx, api.TooManyBodies(owner, full)
	}
	ctx, cancel := context.WithCancel(ctx)
	slow := time.AfterFunc(unverifiedTime, cancel)
	give := context.AfterFunc(ctx, func() { s.anonymous.unverified.Release(owner, MaxGRPCMessage) })
	return context.WithValue(ctx, unverifiedKey{}, &unverified{func() {
		slow.Stop()
		if give() {
			s.anonymous.unverified.Release(owner, MaxGRPCMessage)
		}
	}}), nil
}

// verified ends the charge and the time limit of awaitVerification.
func verified(ctx context.Context) {
	if u, _ := ctx.Value(unverifiedKey{}).(*unverified); u != nil {
		u.verified()
	}
}
