package remote

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// resetter is a node that resets keys. If lose is set, it exits before it answers.
type resetter struct {
	quoratev1.UnimplementedKeyServiceServer
	resets *atomic.Int64 // of all nodes
	lose   func()
}

func (r *resetter) ResetKey(ctx context.Context, _ *quoratev1.ResetKeyRequest) (*quoratev1.ResetKeyResponse, error) {
	r.resets.Add(1)
	if r.lose != nil {
		r.lose()
		<-ctx.Done()
	}
	return &quoratev1.ResetKeyResponse{}, nil
}

// serve starts a gRPC server for the time of the test, and returns its address.
func serve(t *testing.T, srv *grpc.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l) // until Stop
	t.Cleanup(srv.Stop)
	return l.Addr().String()
}

// TestResetIsAskedOnce checks that a reset which a node received and did not answer is not sent to
// the next node, and that one which could not be sent is.
func TestResetIsAskedOnce(t *testing.T) {
	var resets atomic.Int64
	listen := func(loses bool) string {
		srv := grpc.NewServer()
		node := &resetter{resets: &resets}
		if loses {
			node.lose = func() { go srv.Stop() }
		}
		quoratev1.RegisterKeyServiceServer(srv, node)
		return serve(t, srv)
	}
	to := Targets{Addrs: []string{listen(true), listen(false)}}
	reset := func() error {
		return to.Call(t.Context(), func(ctx context.Context, conn *grpc.ClientConn) error {
			_, err := quoratev1.NewKeyServiceClient(conn).ResetKey(ctx, &quoratev1.ResetKeyRequest{})
			return err
		})
	}
	if err := reset(); !errors.Is(err, errMayBeDone) || resets.Load() != 1 {
		t.Errorf("the answer is lost: %v, and %d resets; want errMayBeDone, 1", err, resets.Load())
	}
	if err := reset(); err != nil || resets.Load() != 2 {
		t.Errorf("the first node is gone: %v, and %d resets in all; want none, 2", err, resets.Load())
	}
}

// TestChangesAreAskedOnce checks that a change which a node did not answer in time is not sent to the
// next node, and that other calls are.
func TestChangesAreAskedOnce(t *testing.T) {
	var calls atomic.Int64
	listen := func(answers bool) string {
		srv := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
			calls.Add(1)
			if !answers {
				<-s.Context().Done()
				return s.Context().Err()
			}
			return s.SendMsg(&emptypb.Empty{})
		}))
		return serve(t, srv)
	}
	to := Targets{Addrs: []string{listen(false), listen(true)}, timeout: 200 * time.Millisecond}
	for _, c := range []struct {
		method string
		req    proto.Message
		once   bool
	}{
		{quoratev1.QuotaService_Allow_FullMethodName, &quoratev1.AllowRequest{}, true},
		{quoratev1.QuotaService_Allow_FullMethodName, &quoratev1.AllowRequest{Cost: new(int64)}, false},
		{quoratev1.QuotaService_Reserve_FullMethodName, &quoratev1.ReserveRequest{}, true},
		{quoratev1.QuotaService_Acquire_FullMethodName, &quoratev1.AcquireRequest{}, true},
		{quoratev1.QuotaService_Report_FullMethodName, &quoratev1.ReportRequest{}, true},
		{quoratev1.RateService_Report_FullMethodName, &quoratev1.RateServiceReportRequest{}, false},
		{quoratev1.SecurityService_CreateToken_FullMethodName, &quoratev1.CreateTokenRequest{}, true},
		{quoratev1.SecurityService_ListTokens_FullMethodName, &quoratev1.ListTokensRequest{}, false},
		{quoratev1.OverrideService_SetOverrides_FullMethodName, &quoratev1.SetOverridesRequest{}, true},
		{quoratev1.LimitService_GetLimits_FullMethodName, &quoratev1.GetLimitsRequest{}, false},
		{quoratev1.AccountAdminService_ApplyOps_FullMethodName, &quoratev1.ApplyOpsRequest{}, false},
	} {
		calls.Store(0)
		err := to.Call(t.Context(), func(ctx context.Context, conn *grpc.ClientConn) error {
			return conn.Invoke(ctx, c.method, c.req, &emptypb.Empty{})
		})
		if errors.Is(err, errMayBeDone) != c.once || (err == nil) == c.once {
			t.Errorf("%s: %v", c.method, err)
		}
		if n := calls.Load(); (n == 1) != c.once {
			t.Errorf("%s: %d calls", c.method, n)
		}
	}
}
