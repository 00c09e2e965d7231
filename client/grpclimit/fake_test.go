package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/grpclimit"
)

// fake gives the answers that the test sets, and records the checks.
type fake struct {
	answer func(client.HTTPCheck) (client.Result, error)

	mu    sync.Mutex
	asked []client.HTTPCheck // Path is the name of the limit, if one was named
}

func (f *fake) AllowHTTP(ctx context.Context, c client.HTTPCheck) (client.Result, error) {
	f.mu.Lock()
	f.asked = append(f.asked, c)
	f.mu.Unlock()
	if f.answer == nil {
		return passed(19), nil
	}
	return f.answer(c)
}

func (f *fake) Allow(ctx context.Context, namespace, limit, key string, cost int64) (client.Result, error) {
	return f.AllowHTTP(ctx, client.HTTPCheck{Namespace: namespace, Path: limit, Key: key, Cost: cost})
}

func (f *fake) Close() error { return nil }

func (f *fake) take() []client.HTTPCheck {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.asked
	f.asked = nil
	return out
}

func passed(left int64) client.Result {
	return client.Result{
		Allowed: true, Remaining: left, Limit: client.Limit{Namespace: "shop", Name: "calls", Rate: "10/s", Burst: 20},
		Policies: []client.Policy{{Name: "calls", Quota: 20, Window: 2 * time.Second, Remaining: left, ResetAfter: time.Duration(20-left) * 100 * time.Millisecond}},
	}
}

func refused(after time.Duration) client.Result {
	r := passed(0)
	r.Allowed, r.RetryAfter = false, after
	return r
}

func always(r client.Result) *fake {
	return &fake{answer: func(client.HTTPCheck) (client.Result, error) { return r, nil }}
}

// first passes n times and then refuses.
func first(n int, after time.Duration) *fake {
	var mu sync.Mutex
	return &fake{answer: func(client.HTTPCheck) (client.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		if n--; n >= 0 {
			return passed(int64(n)), nil
		}
		return refused(after), nil
	}}
}

func broken(err error) *fake {
	return &fake{answer: func(client.HTTPCheck) (client.Result, error) { return client.Result{}, err }}
}

// service echoes messages.
type service struct {
	pb.UnimplementedTestServiceServer
}

func (service) UnaryCall(_ context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Payload: r.GetPayload()}, nil
}

func (service) EmptyCall(context.Context, *pb.Empty) (*pb.Empty, error) { return &pb.Empty{}, nil }

func (service) FullDuplexCall(s grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
	for {
		r, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.Send(&pb.StreamingOutputCallResponse{Payload: r.GetPayload()}); err != nil {
			return err
		}
	}
}

func (service) StreamingInputCall(s grpc.ClientStreamingServer[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse]) error {
	n := int32(0)
	for {
		_, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return s.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: n})
		}
		if err != nil {
			return err
		}
		n++
	}
}

// serve returns a client of a server, with the given interceptors on both sides.
func serve(t testing.TB, server []grpc.ServerOption, dial []grpc.DialOption) (pb.TestServiceClient, string) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(server...)
	pb.RegisterTestServiceServer(s, service{})
	go s.Serve(lis)
	addr := lis.Addr().String()
	cc, err := grpc.NewClient(addr, append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cc.Close()
		s.Stop()
	})
	return pb.NewTestServiceClient(cc), addr
}

func payload(n int) *pb.SimpleRequest {
	return &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, n)}}
}

var calls = grpclimit.Limit("shop", "calls")
