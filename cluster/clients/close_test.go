package clients

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/aggregator"
	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/quota"
)

// slowPeer is a node whose calls take until their context ends, and a little longer.
type slowPeer struct {
	Node
	began chan struct{}
	ended atomic.Bool
}

func (n *slowPeer) Now() quota.Time                 { return 1 }
func (n *slowPeer) Sync() time.Duration             { return time.Second }
func (n *slowPeer) Lease() time.Duration            { return time.Second }
func (n *slowPeer) Limits() *quota.Limits           { l, _ := quota.NewLimits(0, nil); return l }
func (n *slowPeer) Members() (int, []string)        { return 2, nil }
func (n *slowPeer) Process(id quota.NodeID) Process { return Connected }

func (n *slowPeer) Call(ctx context.Context, _ quota.NodeID, _ *peerv1.Call) (*peerv1.Call, error) {
	close(n.began)
	<-ctx.Done()
	time.Sleep(20 * time.Millisecond) // it ends late: a Close that does not wait has returned by then
	n.ended.Store(true)
	return nil, ctx.Err()
}

// TestCloseEndsSettlement: Close ends a settlement that waits for another node, and returns only when
// it has ended. Later settlements do not start.
func TestCloseEndsSettlement(t *testing.T) {
	n := &slowPeer{began: make(chan struct{})}
	agg := aggregator.New(aggregator.Config{Self: "n1", Incarnation: 1, Ranges: 1}, 1)
	s := New(Config{Self: "n1", Incarnation: 1, MaxKeys: 10, Aggregator: agg, Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()}, n)
	c, err := s.Attach(&attach.Hello{Client: "svc", Incarnation: 1, Attachment: 2}, attach.NewOutbox())
	if err != nil {
		t.Fatal(err)
	}
	last := attach.Settlement{Node: "n2", Incarnation: 1, Part: 1, Parts: 1, Report: quota.Report{From: "svc", Incarnation: 1, Term: 1, Seq: 1, Full: true}}
	c.Settle(&last)
	<-n.began
	began := time.Now()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); !n.ended.Load() || took > 10*time.Second {
		t.Errorf("Close took %v; the settlement had ended: %v", took, n.ended.Load())
	}
	c.Settle(&last)                  // would close n.began again
	time.Sleep(5 * time.Millisecond) // a settlement that starts would panic by then
}
