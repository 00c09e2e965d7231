package httplimit_test

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/client"
)

// fake gives the answers that the test sets, and records the checks.
type fake struct {
	answer func(client.HTTPCheck) (client.Result, error)

	mu    sync.Mutex
	asked []client.HTTPCheck // Path is the name of the limit, if one was named
}

func (f *fake) AllowHTTP(ctx context.Context, c client.HTTPCheck) (client.Result, error) {
	f.mu.Lock()
	f.asked = append(f.asked, c)
	f.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return client.Result{}, err
	}
	if f.answer == nil {
		return passed(19), nil
	}
	return f.answer(c)
}

func (f *fake) Allow(ctx context.Context, namespace, limit, key string, cost int64) (client.Result, error) {
	return f.AllowHTTP(ctx, client.HTTPCheck{Namespace: namespace, Path: limit, Key: key, Cost: cost})
}

func (f *fake) Close() error { return nil }

func (f *fake) last() client.HTTPCheck {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.asked) == 0 {
		return client.HTTPCheck{}
	}
	return f.asked[len(f.asked)-1]
}

func (f *fake) times() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked)
}

// result returns the result of a bucket of 20 that refills at 10/s.
func result(left int64) client.Result {
	return client.Result{
		Remaining: left, Limit: client.Limit{Namespace: "web", Name: "per_client", Rate: "10/s", Burst: 20},
		Policies: []client.Policy{{Name: "per_client", Quota: 20, Window: 2 * time.Second, Remaining: left, ResetAfter: time.Duration(20-left) * 100 * time.Millisecond}},
	}
}

func passed(left int64) client.Result {
	r := result(left)
	r.Allowed = true
	return r
}

func refused(after time.Duration) client.Result {
	r := result(0)
	r.RetryAfter = after
	return r
}

func always(r client.Result) *fake {
	return &fake{answer: func(client.HTTPCheck) (client.Result, error) { return r, nil }}
}

func broken(err error) *fake {
	return &fake{answer: func(client.HTTPCheck) (client.Result, error) { return client.Result{}, err }}
}

// bucket is a separate limiter, in the time of the test.
type bucket struct {
	burst, left int64
	every       time.Duration
	last        time.Time
}

func (b *bucket) take(c client.HTTPCheck) (client.Result, error) {
	now := time.Now()
	if b.last.IsZero() {
		b.last, b.left = now, b.burst
	}
	for b.left < b.burst && now.Sub(b.last) >= b.every {
		b.left++
		b.last = b.last.Add(b.every)
	}
	if b.left < c.Cost {
		r := refused(b.every - now.Sub(b.last))
		return r, nil
	}
	if b.left == b.burst {
		b.last = now
	}
	b.left -= c.Cost
	return passed(b.left), nil
}
