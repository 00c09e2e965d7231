package client

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// placesNode has one place, which expires after 30 ms.
type placesNode struct {
	*fakeNode
	taken   atomic.Bool
	renewed chan string
	gone    atomic.Bool // the node has forgotten all places
}

func newPlacesNode() *placesNode {
	return &placesNode{renewed: make(chan string, 100), fakeNode: answering(func(context.Context, *quoratev1.AllowRequest) (*quoratev1.AllowResponse, error) {
		return &quoratev1.AllowResponse{Why: quoratev1.Why_WHY_USE_ACQUIRE, Limit: &quoratev1.Limit{Namespace: "work", Name: "jobs"}}, nil
	})}
}

func (n *placesNode) Acquire(context.Context, *quoratev1.AcquireRequest) (*quoratev1.AcquireResponse, error) {
	if n.taken.Swap(true) {
		return &quoratev1.AcquireResponse{Result: &quoratev1.AllowResponse{Why: quoratev1.Why_WHY_OVER_LIMIT}}, nil
	}
	return &quoratev1.AcquireResponse{Allowed: true, Handle: "h1", ExpiresIn: durationpb.New(30 * time.Millisecond), Result: &quoratev1.AllowResponse{Allowed: true}}, nil
}

func (n *placesNode) Renew(_ context.Context, req *quoratev1.RenewRequest) (*quoratev1.RenewResponse, error) {
	if n.gone.Load() {
		st, err := status.New(codes.NotFound, "handle: is not known").WithDetails(&errdetails.ErrorInfo{Reason: "NO_SUCH_RESERVATION", Domain: "quorate"})
		return nil, cmp.Or(err, st.Err())
	}
	n.renewed <- req.Handle
	return &quoratev1.RenewResponse{}, nil
}

func (n *placesNode) Release(context.Context, *quoratev1.ReleaseRequest) (*quoratev1.ReleaseResponse, error) {
	n.taken.Store(false)
	return &quoratev1.ReleaseResponse{}, nil
}

// TestUseAcquire checks that Allow on an in-flight limit is refused, and that the error names the
// call to use.
func TestUseAcquire(t *testing.T) {
	addr, _ := serve(t, newPlacesNode())
	var h heard
	c := newClient(t, []string{addr}, WithLogger(h.logger()))
	_, allow := c.Allow(t.Context(), "work", "jobs", "k", 1)
	_, http := c.AllowHTTP(t.Context(), HTTPCheck{Namespace: "work", Method: "GET", Path: "/"})
	batch, err := c.AllowBatch(t.Context(), []Check{{Namespace: "work", Limit: "jobs", Key: "k"}})
	if err != nil {
		t.Fatal(err)
	}
	for how, err := range map[string]error{"Allow": allow, "AllowHTTP": http, "AllowBatch": batch[0].Err, "Wait": c.Bucket("work", "jobs", "k").Wait(t.Context())} {
		if !errors.Is(err, ErrUseAcquire) || !strings.Contains(err.Error(), "work/jobs") || !strings.Contains(err.Error(), "call Acquire") || !strings.Contains(err.Error(), "Cancel") {
			t.Errorf("%s: %v", how, err)
		}
	}
	if c.Bucket("work", "jobs", "k").Allow() || c.Buckets("work", "jobs").Allow("k") {
		t.Error("a bucket lets everything pass")
	}
	if got := h.Take(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "limit=work/jobs") {
		t.Errorf("%s", got)
	}
}

// TestKeepAlive checks that KeepAlive renews a reservation until it is returned or no node knows it.
func TestKeepAlive(t *testing.T) {
	n := newPlacesNode()
	addr, _ := serve(t, n)
	c := newClient(t, []string{addr}, WithLogger(nil))
	take := func() *Reservation {
		t.Helper()
		r, err := c.Acquire(t.Context(), "work", "jobs", "k", 1, 0)
		if err != nil || !r.OK() {
			t.Fatalf("%+v %v", r, err)
		}
		return r
	}
	r := take()
	r.KeepAlive(t.Context())
	r.KeepAlive(t.Context()) // a second call changes nothing
	for range 5 {
		if got := <-n.renewed; got != "h1" {
			t.Errorf("renewed %q", got)
		}
	}
	if err := r.Renew(t.Context(), time.Second); err != nil {
		t.Errorf("%v", err)
	}
	if other, err := c.Acquire(t.Context(), "work", "jobs", "k", 1, 0); err != nil || other.OK() {
		t.Errorf("a second place: %+v %v", other, err)
	} else if err := other.Renew(t.Context(), 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("renewing nothing: %v", err)
	}
	if err := r.Cancel(t.Context()); err != nil || n.taken.Load() {
		t.Errorf("cancel: %v, taken: %v", err, n.taken.Load())
	}
	if r.next != nil {
		t.Error("it is renewed after Cancel")
	}
	if err := r.Renew(t.Context(), 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("renewed after Cancel: %v", err)
	}
	r = take()
	ctx, cancel := context.WithCancel(t.Context())
	r.KeepAlive(ctx)
	cancel()
	n.gone.Store(true)
	if err := r.Renew(t.Context(), 0); !errors.Is(err, ErrNoReservation) || errors.Is(err, ErrNoLimit) || !strings.Contains(err.Error(), "not known") {
		t.Errorf("of a handle that is not known: %v", err)
	}
}

// TestKeepAliveAgain checks that a reservation whose KeepAlive ended with its context can be kept alive by another one.
func TestKeepAliveAgain(t *testing.T) {
	node := newPlacesNode()
	addr, _ := serve(t, node)
	c := newClient(t, []string{addr})
	r, err := c.Acquire(t.Context(), "work", "jobs", "k", 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r.KeepAlive(ended)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		r.KeepAlive(t.Context())
		select {
		case <-node.renewed:
			return
		default:
		}
	}
	t.Error("not renewed once the first context had ended")
}
