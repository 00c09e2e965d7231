package client

import (
	"errors"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memberServer serves a fake node over gRPC.
type memberServer struct {
	quoratev1.UnimplementedMemberServiceServer
	n *fakeMember
}

func (m *memberServer) Attach(g grpc.BidiStreamingServer[quoratev1.AttachRequest, quoratev1.AttachResponse]) error {
	s, err := m.n.cluster.open(g.Context(), m.n.name)
	if err != nil {
		return err
	}
	go func() {
		for {
			msg, err := g.Recv()
			if err != nil {
				_ = s.CloseSend()
				return
			}
			if s.Send(msg) != nil {
				return
			}
		}
	}()
	for {
		msg, err := s.Recv()
		if err != nil {
			return nil // a normal end, unless the client has gone
		}
		if err := g.Send(msg); err != nil {
			return err
		}
	}
}

// TestOverGRPC runs one client and one node over a real connection. It checks that all admissions
// are booked when Close returns, and that no goroutine is left.
func TestOverGRPC(t *testing.T) {
	soft, far := bucketLimit("l", "1000/s", 500, quota.Soft), bucketLimit("far", "1/s", 1, quota.Soft)
	far.Decide = quota.AtLeader
	cl := newCluster(t, []string{"a"}, soft, far)
	node := answering(admit)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	quoratev1.RegisterMemberServiceServer(srv, &memberServer{n: cl.node("a")})
	quoratev1.RegisterQuotaServiceServer(srv, node)
	go srv.Serve(l) // returns after Stop
	t.Cleanup(srv.Stop)

	c, err := New(t.Context(), []string{l.Addr().String()}, WithTimeout(testPatience))
	if err != nil {
		t.Fatal(err)
	}
	ready(t, c)
	b := c.Bucket("web", "l", "k")
	admitted := int64(0)
	for range 300 {
		if b.Allow() {
			admitted++
		}
		time.Sleep(100 * time.Microsecond) // the rate of a caller
	}
	res, err := c.Allow(t.Context(), "web", "far", "k", 1)
	if err != nil || !res.Allowed || res.Mode != ModeRemote || node.calls.Load() != 1 {
		t.Errorf("what a leader decides: %+v %v, %d calls", res, err, node.calls.Load())
	}
	if admitted < 250 {
		t.Errorf("admitted %d of 300, with a burst of 500", admitted)
	}
	start := time.Now()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > testPatience/2 {
		t.Errorf("Close took %v although the node is there", took)
	}
	if got := cl.booked(soft.LimitName); got != quota.FromTokens(admitted) {
		t.Errorf("admitted %d, booked %d", admitted, got.Tokens())
	}
	if b.Allow(); c.Stats().Dropped != 0 {
		t.Errorf("%+v", c.Stats())
	}
	if _, err := b.Check(t.Context(), 1); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
