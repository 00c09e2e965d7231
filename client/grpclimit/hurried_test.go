package grpclimit_test

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/grpclimit"
)

// usedUp is a node that refuses everything, after a while.
type usedUp struct {
	quoratev1.UnimplementedQuotaServiceServer
}

func (usedUp) Allow(ctx context.Context, _ *quoratev1.AllowRequest) (*quoratev1.AllowResponse, error) {
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Millisecond): // longer than hurried callers wait
	}
	return &quoratev1.AllowResponse{Why: quoratev1.Why_WHY_OVER_LIMIT, RetryAfter: durationpb.New(time.Hour)}, ctx.Err()
}

// TestHurriedCallers checks that callers with little time do not make the client give up its nodes: it
// would let the calls of all callers pass.
func TestHurriedCallers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	quoratev1.RegisterQuotaServiceServer(srv, usedUp{})
	go srv.Serve(l) // returns after Stop
	t.Cleanup(srv.Stop)
	limiter, err := client.New(t.Context(), []string{l.Addr().String()}, client.WithMode(client.Remote), client.WithTimeout(time.Minute), client.WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { limiter.Close() })
	limited := grpclimit.UnaryServerInterceptor(limiter, calls)
	call := func(ctx context.Context) error {
		_, err := limited(ctx, payload(1), &grpc.UnaryServerInfo{FullMethod: unaryCall}, func(context.Context, any) (any, error) { return nil, nil })
		return err
	}
	if err := call(t.Context()); status.Code(err) != codes.ResourceExhausted {
		t.Fatalf("the limit is used up, but: %v", err)
	}
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if err := call(ctx); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("in a hurry: %v", err)
		}
		cancel()
	}
	if err := call(t.Context()); status.Code(err) != codes.ResourceExhausted || limiter.Stats().CircuitOpened != 0 {
		t.Errorf("after callers in a hurry: %v, the circuit opened %d times", err, limiter.Stats().CircuitOpened)
	}
}
