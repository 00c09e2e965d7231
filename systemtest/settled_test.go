package systemtest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/grpcapi"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// newNode starts a single-node cluster in this process and returns it with the address of its gRPC
// port.
func newNode(t *testing.T, limits ...quota.Limit) (*cluster.Node, string) {
	t.Helper()
	peers, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n, err := cluster.Start(cluster.Config{
		Cluster: "one", Self: "n1", Nodes: map[quota.NodeID]string{"n1": peers.Addr().String()}, Listener: peers, Dir: t.TempDir(),
		Ranges: 4, Replicas: 1, Sync: 100 * time.Millisecond, MaxKeys: 100_000, Idle: time.Minute,
		GrantWait: 20 * time.Millisecond, Timing: raftgroup.DefaultTiming(), SlowDisk: -1, Registry: prometheus.NewRegistry(), Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close(context.Background()) })
	eventually(t, 30*time.Second, "the node takes limits", func() error {
		_, _, err := n.SetLimits(t.Context(), limits)
		return err
	})
	calls, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpcapi.New(api.New(n, api.Options{}), nil)
	go srv.Serve(calls)
	t.Cleanup(srv.Stop)
	return n, calls.Addr().String()
}

// TestClientsManyKeys checks that no key's count is lost when a client settles more than fits into
// one message. A process with many open keys, or with long ones, loses its stream, continues to decide
// for a while, and attaches again. The leader must then have booked exactly what the process
// admitted, for every key.
func TestClientsManyKeys(t *testing.T) {
	testspeed.Full(t)
	for what, c := range map[string]struct{ keys, length int }{
		"many": {20000, 10},
		"long": {4096, 1000},
	} {
		t.Run(what, func(t *testing.T) {
			name := quota.LimitName{Namespace: "web", Limit: "daily"}
			n, addr := newNode(t, quota.Limit{
				LimitName: name, Kind: quota.FixedWindow, Burst: 1000, Rate: quota.Rate{Tokens: 1000, Per: 24 * time.Hour}, Ceiling: quota.Soft, Durable: true,
			})
			way := newCutter(t, addr)
			q, err := client.New(t.Context(), []string{way.Addr().String()}, client.WithGrantWait(0))
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			<-q.Ready()
			admitted := map[string]int64{}
			use := func() {
				for i := range c.keys {
					key := fmt.Sprintf("%05d", i) + strings.Repeat("k", c.length-5)
					if r, err := q.Allow(t.Context(), "web", "daily", key, 1); err == nil && r.Allowed {
						admitted[key]++
					}
				}
			}
			booked := func() error {
				for key, want := range admitted {
					r, err := n.Key(t.Context(), quota.Key{LimitName: name, Key: key})
					if err != nil || len(r) != 1 {
						return fmt.Errorf("%s: %v, %w", key[:5], r, err)
					}
					if got := 1000 - r[0].Remaining; got != want {
						return fmt.Errorf("%s: %d admitted, %d booked; the node was lost %d times", key[:5], want, got, q.Stats().Lost)
					}
				}
				return nil
			}
			use()
			eventually(t, 10*time.Second, "all keys are open", booked)
			way.let(false)
			use()
			way.let(true)
			eventually(t, 10*time.Second, "what was admitted while the stream was broken is booked", booked)
			if s := q.Stats(); s.Lost > 1 || s.Dropped > 0 {
				t.Errorf("the process lost its node %d times, of which one was meant; %d last words were dropped", s.Lost, s.Dropped)
			}
		})
	}
}

// TestClientsMaxWait checks that a check of a limit with max_wait goes to the node at once. The
// node lends nothing of such a limit, so a wait for a grant would be futile.
func TestClientsMaxWait(t *testing.T) {
	n, addr := newNode(t, quota.Limit{
		LimitName: quota.LimitName{Namespace: "web", Limit: "queue"}, Burst: 20, Rate: quota.Rate{Tokens: 1, Per: time.Hour}, Ceiling: quota.Soft,
		MaxWait: 10 * time.Hour, MaxDebt: 10 * time.Hour,
	})
	// What the node admits before it has a leader counts twice for a moment: in its requests, and in its first report.
	eventually(t, 30*time.Second, "the key has a leader", func() error {
		_, err := n.Key(t.Context(), quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: "queue"}, Key: "k"})
		return err
	})
	q, err := client.New(t.Context(), []string{addr}, client.WithGrantWait(500*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	<-q.Ready()
	began := time.Now()
	for i := range 25 {
		r, err := q.Allow(t.Context(), "web", "queue", "k", 1)
		if err != nil || !r.Allowed || i < 20 && r.Wait > 0 || i == 24 && r.Wait == 0 {
			t.Fatalf("check %d: %+v, %v", i, r, err)
		}
	}
	if waits := q.Stats().GrantWaits; waits > 0 {
		t.Errorf("%d of 25 checks have waited for a grant, %v in all", waits, time.Since(began))
	}
}
