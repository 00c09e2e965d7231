package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// fakeNode counts calls; how decides them.
type fakeNode struct {
	quoratev1.UnimplementedQuotaServiceServer
	calls atomic.Int64
	how   atomic.Pointer[answer]
}

type answer func(context.Context, *quoratev1.AllowRequest) (*quoratev1.AllowResponse, error)

func answering(f answer) *fakeNode {
	n := &fakeNode{}
	n.how.Store(&f)
	return n
}

func (n *fakeNode) now(f answer) { n.how.Store(&f) }

func (n *fakeNode) Allow(ctx context.Context, req *quoratev1.AllowRequest) (*quoratev1.AllowResponse, error) {
	n.calls.Add(1)
	return (*n.how.Load())(ctx, req)
}

func (n *fakeNode) AllowBatch(ctx context.Context, req *quoratev1.AllowBatchRequest) (*quoratev1.AllowBatchResponse, error) {
	n.calls.Add(1)
	out := &quoratev1.AllowBatchResponse{}
	for _, c := range req.Checks {
		res, err := (*n.how.Load())(ctx, c)
		if err != nil {
			out.Results = append(out.Results, &quoratev1.AllowResult{Error: status.Convert(err).Message()})
			continue
		}
		out.Results = append(out.Results, &quoratev1.AllowResult{Response: res})
	}
	return out, nil
}

// AllowAll refuses all if it refuses one.
func (n *fakeNode) AllowAll(ctx context.Context, req *quoratev1.AllowAllRequest) (*quoratev1.AllowAllResponse, error) {
	n.calls.Add(1)
	out := &quoratev1.AllowAllResponse{Allowed: true}
	for _, c := range req.Checks {
		res, err := (*n.how.Load())(ctx, c)
		if err != nil {
			return nil, err
		}
		out.Allowed = out.Allowed && res.Allowed
		out.Results = append(out.Results, res)
	}
	return out, nil
}

func admit(context.Context, *quoratev1.AllowRequest) (*quoratev1.AllowResponse, error) {
	return &quoratev1.AllowResponse{
		Allowed: true, Remaining: 19, Why: quoratev1.Why_WHY_HELD,
		Limit: &quoratev1.Limit{Namespace: "web", Name: "per_client", Rate: "10/s", Burst: 20, Ceiling: quoratev1.Ceiling_CEILING_HARD},
	}, nil
}

func hang(ctx context.Context, _ *quoratev1.AllowRequest) (*quoratev1.AllowResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func serve(t *testing.T, n quoratev1.QuotaServiceServer) (addr string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	quoratev1.RegisterQuotaServiceServer(srv, n)
	go srv.Serve(l) // returns after Stop
	t.Cleanup(srv.Stop)
	return l.Addr().String(), srv.Stop
}

// testPatience bounds what should finish at once, and so allows for a busy machine.
const testPatience = time.Minute

func newClient(t *testing.T, addrs []string, opts ...Option) *Client {
	t.Helper()
	c, err := New(t.Context(), addrs, append([]Option{WithMode(Remote), WithTimeout(testPatience)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestAllow checks how a node's answer becomes a Result, including an unknown reason and a refusal
// without a retry time.
func TestAllow(t *testing.T) {
	n := answering(admit)
	addr, _ := serve(t, n)
	c := newClient(t, []string{addr})
	res, err := c.Allow(t.Context(), "web", "per_client", "k", 1)
	want := Result{
		Allowed: true, Remaining: 19, Why: WhyHeld, Mode: ModeRemote, Limit: Limit{Namespace: "web", Name: "per_client", Rate: "10/s", Burst: 20, Hard: true},
		Policies: []Policy{{Name: "per_client", Quota: 20, Window: 2 * time.Second, Remaining: 19}},
	}
	if err != nil || fmt.Sprint(res) != fmt.Sprint(want) {
		t.Errorf("got %+v %v, want %+v", res, err, want)
	}
	n.now(func(context.Context, *quoratev1.AllowRequest) (*quoratev1.AllowResponse, error) {
		return &quoratev1.AllowResponse{Why: 99, RetryAfter: durationpb.New(90 * time.Millisecond)}, nil
	})
	if res, err := c.Allow(t.Context(), "web", "per_client", "k", 1); err != nil || res.Allowed || res.RetryAfter != 90*time.Millisecond || res.Why != WhyUnknown {
		t.Errorf("a refusal: %+v %v", res, err)
	}
	n.now(func(context.Context, *quoratev1.AllowRequest) (*quoratev1.AllowResponse, error) {
		return &quoratev1.AllowResponse{Why: quoratev1.Why_WHY_OVER_BURST}, nil
	})
	if res, err := c.Allow(t.Context(), "web", "per_client", "k", 1); err != nil || res.RetryAfter != Never || res.Why != WhyOverBurst {
		t.Errorf("refused for ever: %+v %v", res, err)
	}
}

// TestAllowBatch checks that one failed check of a batch does not fail the others, and that a cost
// of zero is not sent.
func TestAllowBatch(t *testing.T) {
	n := answering(func(ctx context.Context, req *quoratev1.AllowRequest) (*quoratev1.AllowResponse, error) {
		if req.Key == "bad" {
			return nil, status.Error(codes.InvalidArgument, "key: is bad")
		}
		if req.Cost != nil && req.GetCost() != 3 {
			t.Errorf("cost %v, want absent or 3", req.Cost)
		}
		return admit(ctx, req)
	})
	addr, _ := serve(t, n)
	c := newClient(t, []string{addr})
	res, err := c.AllowBatch(t.Context(), []Check{{"a", "b", "k", 0}, {"a", "b", "bad", 0}, {"a", "b", "k", 3}})
	if err != nil || len(res) != 3 || !res[0].Allowed || !errors.Is(res[1].Err, ErrInvalid) || !res[2].Allowed {
		t.Errorf("%+v %v", res, err)
	}
}

// TestStaysAndFailsOver checks that the client asks one node until it dies, then the next one
// within the same call, and stays there when the first one returns.
func TestStaysAndFailsOver(t *testing.T) {
	a, b := answering(admit), answering(admit)
	addrA, stopA := serve(t, a)
	addrB, _ := serve(t, b)
	c := newClient(t, []string{addrA, addrB})
	ask := func(n int) {
		t.Helper()
		for range n {
			if _, err := c.Allow(t.Context(), "web", "per_client", "k", 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	ask(50)
	if a.calls.Load() != 50 || b.calls.Load() != 0 {
		t.Fatalf("a %d, b %d calls; all belong to a", a.calls.Load(), b.calls.Load())
	}
	stopA()
	start := time.Now()
	ask(50)
	if took := time.Since(start); took > testPatience/4 { // the dead node's share of the first call would be half
		t.Errorf("failing over took %v", took)
	}
	if b.calls.Load() != 50 {
		t.Errorf("b %d calls, want 50", b.calls.Load())
	}
	if got := c.nodes.all()[c.nodes.current.Load()].addr; got != addrB {
		t.Errorf("stays with %s, want %s", got, addrB)
	}
}

// TestHangingNodeCostsOneCall checks that only one call waits for a node that hangs: the client
// then stays with the next node.
func TestHangingNodeCostsOneCall(t *testing.T) {
	ask := func(timeout time.Duration) error {
		a, b := answering(hang), answering(admit)
		addrA, _ := serve(t, a)
		addrB, _ := serve(t, b)
		c := newClient(t, []string{addrA, addrB}, WithTimeout(timeout))
		for range 3 {
			if _, err := c.Allow(context.Background(), "web", "per_client", "k", 1); err != nil {
				return err
			}
		}
		if a.calls.Load() != 1 || b.calls.Load() != 3 {
			return fmt.Errorf("a %d, b %d calls; want 1 and 3", a.calls.Load(), b.calls.Load())
		}
		return nil
	}
	var err error
	for timeout := 200 * time.Millisecond; timeout < testPatience; timeout *= 4 { // a timeout that suits the machine
		if err = ask(timeout); err == nil {
			return
		}
	}
	t.Error(err)
}

// TestSlowNodeAmongDeadOnes checks that unreachable nodes leave their share of the timeout to a
// reachable one.
func TestSlowNodeAmongDeadOnes(t *testing.T) {
	ask := func(timeout time.Duration) error {
		slow := answering(func(ctx context.Context, req *quoratev1.AllowRequest) (*quoratev1.AllowResponse, error) {
			select {
			case <-time.After(timeout / 2): // if the dead nodes had their share, it would have a quarter
			case <-ctx.Done():
			}
			return admit(ctx, req)
		})
		addr, _ := serve(t, slow)
		addrs := []string{addr}
		for range 3 {
			dead, stop := serve(t, answering(admit))
			stop()
			addrs = append(addrs, dead)
		}
		c := newClient(t, addrs, WithTimeout(timeout))
		_, _ = c.Allow(t.Context(), "web", "per_client", "k", 1) // the client learns that nodes are dead by asking them
		_, err := c.Allow(t.Context(), "web", "per_client", "k", 1)
		return err
	}
	var err error
	for timeout := 200 * time.Millisecond; timeout < testPatience; timeout *= 4 { // a timeout that suits the machine
		if err = ask(timeout); err == nil {
			return
		}
	}
	t.Error(err)
}

// TestErrors checks the kind and details of the error for each way in which a call can fail.
func TestErrors(t *testing.T) {
	n := answering(hang)
	addr, stop := serve(t, n)
	c, hasty := newClient(t, []string{addr}), newClient(t, []string{addr}, WithTimeout(50*time.Millisecond))
	expect := func(name string, err error, kinds ...error) *Error {
		t.Helper()
		var e *Error
		if !errors.As(err, &e) {
			t.Fatalf("%s: %v is no *Error", name, err)
		}
		for _, k := range kinds {
			if !errors.Is(err, k) {
				t.Errorf("%s: %v is not %v", name, err, k)
			}
		}
		return e
	}
	call := func(ctx context.Context) error { _, err := c.Allow(ctx, "web", "l", "k", 1); return err }

	_, err := hasty.Allow(context.Background(), "web", "l", "k", 1)
	expect("default deadline", err, ErrUnavailable, context.DeadlineExceeded)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expect("canceled", call(ctx), ErrUnavailable, context.Canceled)
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	expect("a wait that ends while a node is asked", c.Bucket("web", "l", "k").Wait(soon), ErrTooLong, context.DeadlineExceeded)

	expect("a node that ends with the wait, before its context does", c.Bucket("web", "l", "k").Wait(lateContext{t.Context(), time.Now().Add(50 * time.Millisecond)}), ErrTooLong, context.DeadlineExceeded)

	n.now(func(context.Context, *quoratev1.AllowRequest) (*quoratev1.AllowResponse, error) {
		return nil, status.Error(codes.NotFound, "web/l does not exist")
	})
	if e := expect("not found", call(t.Context()), ErrNoLimit); e.Node != addr || e.Detail != "web/l does not exist" {
		t.Errorf("%+v", e)
	}
	stop()
	expect("down", call(t.Context()), ErrUnavailable)
	c.Close()
	expect("closed", call(t.Context()), ErrClosed)
	if err := c.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}

	_, err = New(t.Context(), nil)
	expect("no addresses", err, ErrInvalid)
	_, err = New(t.Context(), []string{addr}, WithTimeout(-1))
	expect("timeout", err, ErrInvalid)
}

// lateContext is a context whose deadline passes before it ends, as on a busy machine.
type lateContext struct {
	context.Context
	at time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.at, true }

// TestConcurrentFailover checks that no error reaches many concurrent callers when a node dies.
func TestConcurrentFailover(t *testing.T) {
	a, b := answering(admit), answering(admit)
	addrA, stopA := serve(t, a)
	addrB, _ := serve(t, b)
	c := newClient(t, []string{addrA, addrB}, WithTimeout(testPatience))
	var wg sync.WaitGroup
	var failed atomic.Int64
	for i := range 16 {
		wg.Go(func() {
			for j := range 200 {
				if i == 0 && j == 50 {
					stopA()
				}
				if _, err := c.Allow(context.Background(), "web", "l", "k", 1); err != nil {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if failed.Load() > 0 || b.calls.Load() == 0 {
		t.Errorf("%d calls failed; b had %d", failed.Load(), b.calls.Load())
	}
}

// TestWhyWords checks that every value of the proto enum has a constant here.
func TestWhyWords(t *testing.T) {
	known := map[Why]bool{
		WhyHeld: true, WhyEstimate: true, WhyLocal: true, WhyOverLimit: true, WhyOverBurst: true, WhyNotHeld: true, WhyCutOff: true, WhyTooManyKeys: true, WhyNoLimit: true,
		WhyReserved: true, WhyWaitTooLong: true, WhyOverMaxCost: true, WhyUnlimited: true, WhyBanned: true, WhyLeader: true, WhyShare: true,
		WhyOpen: true, WhyFixedRate: true, WhyNotEnforced: true, WhyFloor: true, WhyParentOverLimit: true, WhyUseAcquire: true, WhyFailover: true,
	}
	for _, w := range whys {
		if !known[w] {
			t.Errorf("%q has no constant", w)
		}
	}
	if len(whys) != len(known) {
		t.Errorf("the proto has %d words, the client %d", len(whys), len(known))
	}
}
