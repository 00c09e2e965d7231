package grpcapi

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/api"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/rbac"
)

// The most frequent calls have their own handlers, which need no generated message and no
// interceptor (see codec).
const (
	MethodAllow = quoratev1.QuotaService_Allow_FullMethodName
	methodBatch = quoratev1.QuotaService_AllowBatch_FullMethodName
)

// quotaDesc returns the description of QuotaService with these handlers.
func quotaDesc() *grpc.ServiceDesc {
	d := quoratev1.QuotaService_ServiceDesc
	d.Methods, d.Streams = slices.Clone(d.Methods), slices.Clone(d.Streams)
	for i := range d.Methods {
		switch d.Methods[i].MethodName {
		case "Allow":
			d.Methods[i].Handler = func(srv any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				return srv.(*quotaServer).serveAllow(ctx, dec)
			}
		case "AllowBatch":
			d.Methods[i].Handler = func(srv any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				return srv.(*quotaServer).serveBatch(ctx, dec)
			}
		}
	}
	for i := range d.Streams {
		if d.Streams[i].StreamName == "AllowStream" {
			d.Streams[i].Handler = func(srv any, stream grpc.ServerStream) error { return srv.(*quotaServer).serveStream(stream) }
		}
	}
	return &d
}

// answerRoom is larger than most answers, in bytes.
const answerRoom = 96

// singles is a pool.
var singles = sync.Pool{New: func() any { return new(single) }}

func (s *quotaServer) serveAllow(ctx context.Context, dec func(any) error) (any, error) {
	m := singles.Get().(*single)
	defer m.free()
	if err := dec(m); err != nil {
		return nil, err
	}
	start := time.Now()
	var err error
	if s.Guard != nil {
		err = s.authorizeCheck(ctx, MethodAllow, m.check.Namespaces)
	}
	a := newAnswer()
	if err == nil {
		a.out, err = m.decide(s.QuotaService, a.out)
	}
	return answered(ctx, s, a, MethodAllow, start, err)
}

// free drops the references to the message and puts m back into the pool.
func (m *single) free() {
	*m = single{}
	singles.Put(m)
}

// answered measures a call and returns what gRPC sends.
func answered[M any](ctx context.Context, s *quotaServer, m M, method string, start time.Time, err error) (any, error) {
	if err == nil {
		api.ObserveTraced(s.Meter.Hot(method), time.Since(start).Seconds(), TracedCall(ctx))
		return m, nil
	}
	s.Meter.Observe("grpc", method, status.Code(err).String(), start, TracedCall(ctx))
	return nil, err
}

// decide appends the answer to the check.
func (m *single) decide(s *api.QuotaService, b []byte) ([]byte, error) {
	if m.fault != nil {
		return b, m.fault
	}
	d, r, err := s.Decide(&m.check)
	if err != nil {
		return b, err
	}
	return appendWire(b, r, &d), nil
}

// authorizeCheck identifies and authorizes the caller, as the interceptors do for other calls. Without a
// guard there is nothing to check.
func (s *quotaServer) authorizeCheck(ctx context.Context, method string, namespaces iter.Seq[string]) error {
	v, err := s.server.arrive(ctx, method)
	if err == nil {
		ctx, err = s.Authorize(ctx, v)
	}
	if err == nil {
		err = s.AuthorizeIn(ctx, namespaces)
	}
	if err != nil {
		v.Failed = err
		s.Audit(v)
	}
	return err
}

// serveStream serves AllowStream. It authorizes each check.
func (s *quotaServer) serveStream(stream grpc.ServerStream) error {
	m, ctx := new(single), stream.Context()
	text := make([]byte, 0, answerRoom)
	for {
		if err := stream.RecvMsg(m); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if s.Guard != nil && !s.Everywhere(ctx, rbac.Check) {
			if err := s.AuthorizeIn(ctx, m.check.Namespaces); err != nil {
				return err
			}
		}
		a := newAnswer()
		var err error
		if text, err = m.decide(s.QuotaService, text[:0]); err != nil {
			a.out = appendFault(a.out, err)
		} else {
			a.out = appendResponse(a.out, text)
		}
		if err := stream.SendMsg(a); err != nil {
			return err
		}
	}
}
