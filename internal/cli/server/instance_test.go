package server

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
)

// TestBoundsOfAllTransports checks that the bounds of a node hold for all its transports together:
// watchers over gRPC that use up the room for events leave none for HTTP.
func TestBoundsOfAllTransports(t *testing.T) {
	in := startOne(t, callers{protocols: devProtocols})
	conn, err := grpc.NewClient(in.ports.grpc.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	for i := range 8 {
		w, err := quoratev1.NewEventServiceClient(conn).Watch(t.Context(), &quoratev1.WatchRequest{Buffer: 65536})
		if err == nil {
			_, err = w.Header()
		}
		if err != nil {
			t.Fatalf("watcher %d: %v", i, err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+in.ports.http.Addr().String()+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a watcher over HTTP: %d; want %d: watchers over gRPC have all the room", res.StatusCode, http.StatusServiceUnavailable)
	}
}

// startOne starts a cluster of one node, without TLS and authentication.
func startOne(t *testing.T, who callers, tune ...func(*cluster.Config)) *instance {
	t.Helper()
	ports, err := listen(t.Context(), "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := cluster.Config{
		Cluster: "one", Self: "n1", Nodes: map[quota.NodeID]string{"n1": ports.peer.Addr().String()}, Dir: t.TempDir(), Ranges: 1, Replicas: 1,
		Sync: 100 * time.Millisecond, MaxKeys: 1000, Idle: time.Minute, Timing: raftgroup.DefaultTiming(), SlowDisk: -1,
	}
	for _, f := range tune {
		f(&cfg)
	}
	in, err := startInstance(cfg, who, ports, &security{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		if err := in.stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return in
}
