package requester

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/quorate/quorate/client"
)

// local is a Limiter in this process.
type local struct {
	l   *rate.Limiter
	err error
}

func (l *local) Allow(_ context.Context, ns, limit, _ string, cost int64) (client.Result, error) {
	if l.err != nil {
		return client.Result{}, l.err
	}
	res := client.Result{Allowed: true, Limit: client.Limit{Namespace: ns, Name: limit}}
	if int(cost) > l.l.Burst() {
		res.Allowed, res.Why, res.RetryAfter = false, client.WhyOverBurst, client.Never
		return res, nil
	}
	r := l.l.ReserveN(time.Now(), int(cost))
	if d := r.Delay(); d > 0 {
		r.Cancel()
		res.Allowed, res.Why, res.RetryAfter = false, client.WhyOverLimit, d
	}
	return res, nil
}

func (l *local) AllowHTTP(context.Context, client.HTTPCheck) (client.Result, error) {
	return client.Result{}, nil
}
func (l *local) Close() error { return nil }

// TestLimit calls a function five times a second under a limit of two a second.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(&local{l: rate.NewLimiter(2, 2)}, "web", "l", "k")
		limited := Limit(t.Context(), r, func(context.Context) (string, error) { return "done", nil })
		passed, refused := 0, 0
		for range 25 { // 5 s
			out, err := limited(t.Context())
			var why *Refused
			switch {
			case err == nil && out == "done":
				passed++
			case errors.Is(err, ErrRefused) && errors.As(err, &why) && why.RetryAfter() > 0 && out == "":
				refused++
			default:
				t.Fatal(out, err)
			}
			time.Sleep(200 * time.Millisecond)
		}
		if passed != 11 || refused != 14 {
			t.Errorf("%d passed, %d refused; want 11 and 14", passed, refused)
		}
	})
}

// TestLimitEnds checks that the context of the limited function ends its calls.
func TestLimitEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	r := New(&local{l: rate.NewLimiter(rate.Inf, 1)}, "web", "l", "k")
	limited := Limit(ctx, r, func(ctx context.Context) (int, error) {
		cancel(gone)
		<-ctx.Done()
		return 0, context.Cause(ctx)
	})
	if _, err := limited(t.Context()); !errors.Is(err, gone) {
		t.Errorf("a call under way: %v", err)
	}
	if _, err := limited(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("a further call: %v", err)
	}
}

// waits is a limiter that makes callers wait for tokens to come.
type waits struct {
	client.Limiter
	taken int64
}

func (w *waits) Allow(_ context.Context, _, _, _ string, cost int64) (client.Result, error) {
	w.taken += cost
	return client.Result{Allowed: true, Wait: time.Minute}, nil
}

func (w *waits) Refund(_ context.Context, _, _, _ string, tokens int64) error {
	w.taken -= tokens
	return nil
}

// TestCallEnds checks that a call that ends while it waits for its tokens gives them back.
func TestCallEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l := &waits{}
		if err := New(l, "web", "l", "k", WithCost(3)).RequestToken(ctx); !errors.Is(err, context.DeadlineExceeded) || l.taken != 0 {
			t.Errorf("%v, %d taken", err, l.taken)
		}
		if err := New(l, "web", "l", "k", WithCost(3)).RequestToken(t.Context()); err != nil || l.taken != 3 {
			t.Errorf("a call that stays: %v, %d taken", err, l.taken)
		}
	})
}

// TestQueue checks that calls wait no longer than their contexts, and not more of them than
// allowed.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(&local{l: rate.NewLimiter(10, 1)}, "web", "l", "k", WithQueue(5))
		var full, late, passed atomic.Int64
		var work sync.WaitGroup
		start := time.Now()
		for i := range 8 { // one passes, five wait, two are too many
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if i == 3 {
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
			}
			work.Go(func() {
				defer cancel()
				switch err := r.RequestToken(ctx); {
				case err == nil:
					passed.Add(1)
				case errors.Is(err, ErrQueueFull) && errors.Is(err, ErrRefused):
					full.Add(1)
				case errors.Is(err, context.DeadlineExceeded):
					late.Add(1)
				default:
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		work.Wait()
		if passed.Load() != 5 || full.Load() != 2 || late.Load() != 1 {
			t.Errorf("%d passed, %d too many, %d late; want 5, 2, 1", passed.Load(), full.Load(), late.Load())
		}
		if took := time.Since(start); took < 390*time.Millisecond || took > 420*time.Millisecond {
			t.Errorf("four waited %v at 10/s", took)
		}
		never := New(&local{l: rate.NewLimiter(10, 1)}, "web", "l", "k", WithQueue(5), WithCost(2))
		var why *Refused
		if err := never.RequestToken(t.Context()); !errors.As(err, &why) || why.RetryAfter() != client.Never {
			t.Errorf("what never fits: %v", err)
		}
	})
}

// lateContext is a context whose deadline passes before it ends, as on a busy machine.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now(), true }

// TestUndecided checks that calls without a decision pass, unless their deadline has passed or the requester is
// configured otherwise.
func TestUndecided(t *testing.T) {
	l := &local{err: client.ErrUnavailable}
	if err := New(l, "web", "l", "k").RequestToken(t.Context()); err != nil {
		t.Errorf("open: %v", err)
	}
	if err := New(l, "web", "l", "k").RequestToken(lateContext{t.Context()}); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("too late: %v", err)
	}
	if err := New(l, "web", "l", "k", WithErrors()).RequestToken(t.Context()); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("strict: %v", err)
	}
	if err := New(failsClosed{l}, "web", "l", "k").RequestToken(t.Context()); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("a client that fails closed: %v", err)
	}
	for _, l.err = range []error{client.ErrInvalid, client.ErrUseAcquire} {
		if err := New(l, "web", "l", "k").RequestToken(t.Context()); !errors.Is(err, l.err) {
			t.Errorf("a mistake: %v, want %v", err, l.err)
		}
	}
}

// failsClosed is a limiter like a client with client.WithFailClosed.
type failsClosed struct{ client.Limiter }

func (failsClosed) FailsClosed() bool { return true }
