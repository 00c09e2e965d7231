package remote

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

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

// TestResetIsAskedOnce checks that a reset which a node received and did not answer is not sent to
// the next node, and that one which could not be sent is.
func TestResetIsAskedOnce(t *testing.T) {
	var resets atomic.Int64
	listen := func(loses bool) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		srv := grpc.NewServer()
		node := &resetter{resets: &resets}
		if loses {
			node.lose = func() { go srv.Stop() }
		}
		quoratev1.RegisterKeyServiceServer(srv, node)
		go srv.Serve(l) // until Stop
		t.Cleanup(srv.Stop)
		return l.Addr().String()
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
