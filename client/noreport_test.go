package client

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// TestRefundsWithoutPermission attaches a process that may check and not report. A node would end the attachment at a
// refund or a report of use, so they are calls, which return the error of the node.
func TestRefundsWithoutPermission(t *testing.T) {
	limits := []quota.Limit{bucketLimit("l", "1/h", 10, quota.Soft), bucketLimit("l", "1/h", 10, quota.Soft)}
	limits[1].Namespace = "free"
	cl := newCluster(t, []string{"a"}, limits...)
	cl.node("a").noReport = []string{limits[0].Namespace}
	c := attachTo(t, cl)
	defer c.Close()
	ready(t, c)
	var booked atomic.Int64
	addr, stop := serve(t, &booker{booked: &booked})
	defer stop()
	var err error
	if c.nodes, err = newNodes([]string{addr}, nil); err != nil {
		t.Fatal(err)
	}
	for _, l := range limits {
		if res, err := c.Allow(t.Context(), l.Namespace, "l", "k", 5); err != nil || !res.Allowed {
			t.Fatalf("%+v, %v", res, err)
		}
		if err := c.Refund(t.Context(), l.Namespace, "l", "k", 2); err != nil {
			t.Error(err)
		}
		if n, err := c.Report(t.Context(), l.Namespace, "l", "k", 1); err != nil || n != 1 {
			t.Errorf("%d booked, %v", n, err)
		}
	}
	if n := booked.Load(); n != 3 {
		t.Errorf("a node booked %d of the tokens; want 3, those of the namespace without the permission", n)
	}
}

// TestDenied asks a node that refuses the caller. The error says so, and fallbacks apply as if no node had answered.
func TestDenied(t *testing.T) {
	addr, stop := serve(t, answering(func(context.Context, *quoratev1.AllowRequest) (*quoratev1.AllowResponse, error) {
		return nil, status.Error(codes.PermissionDenied, `"client:shop" needs check in namespace "web"`)
	}))
	defer stop()
	c := newClient(t, []string{addr})
	_, err := c.AllowBatch(t.Context(), []Check{{Namespace: "web", Limit: "l", Key: "k"}})
	if err == nil {
		_, err = c.Allow(t.Context(), "web", "l", "k", 1)
	}
	if !errors.Is(err, ErrDenied) || !errors.Is(err, ErrUnavailable) || !strings.HasPrefix(err.Error(), `quorate: permission denied: "client:shop" needs check`) {
		t.Errorf("%v", err)
	}
}
