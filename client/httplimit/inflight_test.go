package httplimit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/httplimit"
)

// places is a node with an in-flight limit, or with a rate that admits everything.
type places struct {
	quoratev1.UnimplementedQuotaServiceServer
	mu               sync.Mutex
	free             int
	rate             bool
	asked, took, out int
}

func (p *places) Allow(context.Context, *quoratev1.AllowRequest) (*quoratev1.AllowResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if p.rate {
		return &quoratev1.AllowResponse{Allowed: true, Why: quoratev1.Why_WHY_HELD}, nil
	}
	return &quoratev1.AllowResponse{Why: quoratev1.Why_WHY_USE_ACQUIRE}, nil
}

func (p *places) Acquire(_ context.Context, req *quoratev1.AcquireRequest) (*quoratev1.AcquireResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate {
		return nil, status.Error(codes.InvalidArgument, "limit: counts bucket")
	}
	if p.free < int(req.GetCount()) {
		return &quoratev1.AcquireResponse{Result: &quoratev1.AllowResponse{Why: quoratev1.Why_WHY_OVER_LIMIT, RetryAfter: durationpb.New(time.Second)}}, nil
	}
	p.free -= int(req.GetCount())
	p.took++
	return &quoratev1.AcquireResponse{Allowed: true, Handle: "h", ExpiresIn: durationpb.New(time.Minute), Result: &quoratev1.AllowResponse{Allowed: true}}, nil
}

func (p *places) Release(context.Context, *quoratev1.ReleaseRequest) (*quoratev1.ReleaseResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	p.out++
	return &quoratev1.ReleaseResponse{}, nil
}

func attachTo(t *testing.T, node quoratev1.QuotaServiceServer, opts ...client.Option) *client.Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	quoratev1.RegisterQuotaServiceServer(srv, node)
	go srv.Serve(l) // returns after Stop
	t.Cleanup(srv.Stop)
	opts = append([]client.Option{client.WithMode(client.Remote), client.WithTimeout(time.Minute), client.WithLogger(nil)}, opts...)
	c, err := client.New(t.Context(), []string{l.Addr().String()}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestInFlight checks that under an in-flight limit a request holds a place until its handler
// returns or panics, that a request without a place is refused, that the limit may change into a rate,
// and that none of this is logged as a mistake.
func TestInFlight(t *testing.T) {
	p := &places{free: 1}
	within, again := make(chan struct{}), make(chan struct{})
	var log bytes.Buffer
	c := attachTo(t, p, client.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	h := httplimit.New(c, httplimit.Limit("work", "jobs"))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			within <- struct{}{}
			<-again
		case "/panics":
			panic(http.ErrAbortHandler)
		}
	}))
	call := func(path string) (code int, retry string) {
		defer func() { _ = recover() }()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, get(path))
		return w.Code, w.Header().Get("Retry-After")
	}
	slow := make(chan int)
	go func() { code, _ := call("/slow"); slow <- code }()
	<-within
	if code, retry := call("/"); code != http.StatusTooManyRequests || retry != "1" {
		t.Errorf("a second at once: %d, %q", code, retry)
	}
	again <- struct{}{}
	if code := <-slow; code != http.StatusOK {
		t.Errorf("the first: %d", code)
	}
	call("/panics")
	for range 3 {
		if code, _ := call("/"); code != http.StatusOK {
			t.Errorf("one after the other: %d", code)
		}
	}
	if p.asked != 1 || p.took != 5 || p.out != 5 || p.free != 1 {
		t.Errorf("asked %d times, took %d places, gave %d back, %d free", p.asked, p.took, p.out, p.free)
	}
	p.rate = true
	if code, _ := call("/"); code != http.StatusOK || p.asked != 2 {
		t.Errorf("as a rate: %d, asked %d times", code, p.asked)
	}
	c.Close()
	if strings.Contains(log.String(), "used like a rate limit") {
		t.Errorf("logged: %s", log.String())
	}
}

// TestInFlightCallersLeave checks that a caller that leaves while its place is taken holds none
// afterwards, and does not reach the handler.
func TestInFlightCallersLeave(t *testing.T) {
	p := &places{free: 1}
	slow := &slowPlaces{places: p, taken: make(chan struct{})}
	reached := false
	h := httplimit.New(attachTo(t, slow), httplimit.Limit("work", "jobs"))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	for range 3 {
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			<-slow.taken
			leave()
			slow.taken <- struct{}{}
		}()
		h.ServeHTTP(httptest.NewRecorder(), get("/").WithContext(ctx))
	}
	if p.took != 3 || p.free != 1 || reached {
		t.Errorf("%d places were taken, and %d is free; want 3, 1; the handler was reached: %v", p.took, p.free, reached)
	}
}

// slowPlaces answers when the caller has left.
type slowPlaces struct {
	*places
	taken chan struct{}
}

func (p *slowPlaces) Acquire(ctx context.Context, req *quoratev1.AcquireRequest) (*quoratev1.AcquireResponse, error) {
	res, err := p.places.Acquire(ctx, req)
	p.taken <- struct{}{}
	<-p.taken
	return res, err
}

// TestInFlightOfRules checks that nothing passes, and the reason is given, where no place can be
// taken.
func TestInFlightOfRules(t *testing.T) {
	var told error
	c := attachTo(t, &places{free: 1})
	w := do(c, get("/"), httplimit.Rules("work"), httplimit.OnError(func(_ context.Context, err error) { told = err }))
	if w.Code != http.StatusServiceUnavailable || !errors.Is(told, client.ErrUseAcquire) {
		t.Errorf("%d, %v", w.Code, told)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := httplimit.NewTransport(c, nil, httplimit.Limit("work", "jobs")).RoundTrip(req); !errors.Is(err, client.ErrUseAcquire) {
		t.Errorf("a client: %v", err)
	}
}
