package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestWait checks that callers wait in order of arrival, at the limit's rate, no longer than their
// contexts, and not more of them than allowed.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, []string{"a"}, bucketLimit("l", "10/s", 2, quota.Soft), bucketLimit("none", "0/s", 0, quota.Soft))
		c := attachTo(t, cl, WithMaxWaiting(9))
		defer c.Close()
		ready(t, c)
		b := c.Bucket("web", "l", "k")
		for range 2 {
			if err := b.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		var work sync.WaitGroup
		var mu sync.Mutex
		var order []int
		for i := range 5 {
			work.Go(func() {
				if err := b.Wait(t.Context()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
			})
			synctest.Wait()
		}
		if err := b.Wait(t.Context()); !errors.Is(err, ErrTooManyWaiting) {
			t.Errorf("the sixth: %v", err)
		}
		if s := c.Stats(); s.Waiting != 5 || s.WaitsRefused != 1 {
			t.Errorf("%+v", s)
		}
		work.Wait()
		if took := time.Since(start); took < 450*time.Millisecond || took > 650*time.Millisecond {
			t.Errorf("five at 10/s took %v", took)
		}
		for i, n := range order {
			if i != n {
				t.Errorf("served in the order %v", order)
				break
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start = time.Now()
		if err := b.WaitN(ctx, 2); !errors.Is(err, ErrTooLong) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 25*time.Millisecond {
			t.Errorf("a context that ends before: %v after %v", err, time.Since(start))
		}
		for n, limit := range map[int64]string{3: "l", 1: "none"} {
			if err := c.Bucket("web", limit, "k").WaitN(t.Context(), n); !errors.Is(err, ErrNever) {
				t.Errorf("%d of %s: %v", n, limit, err)
			}
		}
		if err := c.Bucket("web", "unknown", "k").Wait(t.Context()); !errors.Is(err, ErrNoLimit) {
			t.Errorf("no limit: %v", err)
		}
		waits := make(chan error)
		go func() { waits <- c.Bucket("web", "l", "k").WaitN(context.Background(), 2) }()
		synctest.Wait()
		c.Close()
		if err := <-waits; !errors.Is(err, ErrClosed) {
			t.Errorf("closed while waiting: %v", err)
		}
	})
}

// TestHotKeyLeavesPlaces checks that callers that wait for one key leave places for callers of
// other keys.
func TestHotKeyLeavesPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, []string{"a"}, bucketLimit("l", "1/h", 1, quota.Soft))
		c := attachTo(t, cl, WithMaxWaiting(8))
		defer c.Close()
		ready(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		var hot atomic.Int64
		for range 20 {
			work.Go(func() {
				if err := c.Bucket("web", "l", "hot").Wait(ctx); errors.Is(err, ErrTooManyWaiting) {
					hot.Add(1)
				}
			})
			synctest.Wait()
		}
		if n := hot.Load(); n != 16 {
			t.Errorf("%d of 20 callers of one key found no place; half of 8 places are its own", n)
		}
		for _, k := range []string{"second", "second", "third"} {
			work.Go(func() {
				if err := c.Bucket("web", "l", k).WaitN(ctx, 1); errors.Is(err, ErrTooManyWaiting) {
					t.Errorf("%s: %v", k, err)
				}
			})
			synctest.Wait()
		}
		cancel()
		work.Wait()
		if s := c.Stats(); s.Waiting != 0 {
			t.Errorf("%d wait in the end", s.Waiting)
		}
	})
}

// TestSettleTooMuch checks that an invalid number of used tokens does not end a reservation: it can still be
// cancelled.
func TestSettleTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, []string{"a"}, bucketLimit("l", "1/h", 100, quota.Soft))
		c := attachTo(t, cl)
		defer c.Close()
		ready(t, c)
		b := c.Bucket("web", "l", "k")
		r, err := b.ReserveN(t.Context(), 10)
		if err != nil {
			t.Error(err)
			return
		}
		for _, used := range []int64{-1, quota.MaxTokens + 11} {
			var invalid *Error
			if err := r.Settle(t.Context(), used); !errors.As(err, &invalid) || invalid.Field != "used" {
				t.Errorf("settled with %d: %v", used, err)
			}
		}
		r.Cancel(t.Context())
		if res, err := b.Check(t.Context(), 0); err != nil || res.Remaining != 100 {
			t.Errorf("%d remain (%v), want 100", res.Remaining, err)
		}
	})
}

// TestReserve checks that unused reserved tokens return and that excess usage is booked, each only
// once.
func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucketLimit("l", "1/h", 100, quota.Soft)
		cl := newCluster(t, []string{"a"}, l)
		c := attachTo(t, cl)
		ready(t, c)
		b := c.Bucket("web", "l", "k")
		ctx := t.Context()
		reserve := func(n int64) *Reservation {
			t.Helper()
			r, err := b.ReserveN(ctx, n)
			if err != nil || !r.OK() || r.Delay() != 0 {
				t.Fatal(r, err)
			}
			return r
		}
		left := func(want int64) {
			t.Helper()
			if res, err := b.Check(ctx, 0); err != nil || res.Remaining != want {
				t.Errorf("%d remain (%v), want %d", res.Remaining, err, want)
			}
		}
		r := reserve(30)
		left(70)
		for range 2 {
			if err := r.Settle(ctx, 10); err != nil {
				t.Error(err)
			}
		}
		left(90)
		r = reserve(10)
		r.Cancel(ctx)
		left(90)
		r = reserve(10)
		r.Settle(ctx, 25)
		left(65)
		if r, err := b.ReserveN(ctx, 80); err != nil || r.OK() || r.Delay() != Never || r.RetryAfter == 0 || r.Cancel(ctx) != nil {
			t.Errorf("more than there is: %+v %v", r, err)
		}
		if booked, err := b.Report(ctx, 15); err != nil || booked != 15 {
			t.Errorf("reported 15, booked %d %v", booked, err)
		}
		left(50)
		if err := b.Refund(ctx, 5); err != nil {
			t.Error(err)
		}
		left(55)
		for _, n := range []int64{0, -1} {
			if err := b.Refund(ctx, n); !errors.Is(err, ErrInvalid) {
				t.Errorf("refunded %d: %v", n, err)
			}
		}
		c.Close()
	})
}

// TestManyRules checks that all limits that match a request decide it, however many they are.
func TestManyRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := []quota.Limit{bucketLimit("z", "1/h", 1, quota.Soft)}
		for i := range 2 * MaxAll {
			limits = append(limits, bucketLimit(fmt.Sprintf("r%d", i), "1/h", 100, quota.Soft))
		}
		for i := range limits {
			limits[i].Match = &quota.Match{Path: "/**"}
		}
		c := attachTo(t, newCluster(t, []string{"a"}, limits...))
		defer c.Close()
		ready(t, c)
		for i := range 2 {
			res, err := c.AllowHTTP(t.Context(), HTTPCheck{Namespace: "web", Method: "GET", Path: "/p", Key: "k"})
			if err != nil || res.Allowed != (i == 0) || res.Limit.Name != "z" {
				t.Errorf("request %d: %+v %v; want that z lets one pass", i, res, err)
			}
		}
	})
}

// TestAllOrNothing checks that no check is charged if one refuses, for checks that succeed or fail
// together, and for a request that several limits match.
func TestAllOrNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wide, narrow, post := bucketLimit("wide", "1/h", 100, quota.Soft), bucketLimit("narrow", "1/h", 3, quota.Soft), bucketLimit("post", "1/h", 1, quota.Soft)
		wide.Match, narrow.Match = &quota.Match{Path: "/**"}, &quota.Match{Path: "/items/*"}
		post.Match = &quota.Match{Methods: []string{"POST"}, Path: "/items/*"}
		cl := newCluster(t, []string{"a"}, wide, narrow, post)
		c := attachTo(t, cl)
		defer c.Close()
		ready(t, c)
		ctx := t.Context()
		get := HTTPCheck{Namespace: "web", Method: "GET", Path: "/items/7?x=1", Key: "k"}
		for i := range 3 {
			res, err := c.AllowHTTP(ctx, get)
			if err != nil || !res.Allowed || res.Limit.Name != "narrow" || res.Remaining != int64(2-i) || len(res.Policies) != 2 {
				t.Fatalf("%+v %v", res, err)
			}
		}
		res, err := c.AllowHTTP(ctx, get)
		if err != nil || res.Allowed || res.Limit.Name != "narrow" || res.RetryAfter == 0 {
			t.Errorf("the fourth: %+v %v", res, err)
		}
		if res, err := c.AllowHTTP(ctx, HTTPCheck{Namespace: "web", Method: "GET", Path: "/", Key: "k"}); err != nil || res.Limit.Name != "wide" || res.Remaining != 96 {
			t.Errorf("refusals charge nothing: %+v %v", res, err)
		}
		if res, err := c.AllowHTTP(ctx, HTTPCheck{Namespace: "other", Method: "GET", Path: "/", Key: "k"}); err != nil || !res.Allowed || res.Why != WhyNoLimit {
			t.Errorf("nothing matches: %+v %v", res, err)
		}
		for _, bad := range []HTTPCheck{{Method: "GET", Path: "x"}, {Path: "/"}, {Method: "GET", Path: "/", Cost: -1}, {Method: "GET", Path: "/", Key: "\xff"}} {
			if _, err := c.AllowHTTP(ctx, bad); !errors.Is(err, ErrInvalid) {
				t.Errorf("%+v: %v", bad, err)
			}
		}

		both := []Check{{Namespace: "web", Limit: "wide", Key: "b"}, {Namespace: "web", Limit: "post", Key: "b"}}
		all, err := c.AllowAll(ctx, both)
		if err != nil || !all.Allowed || len(all.Results) != 2 || all.Results[0].Remaining != 99 {
			t.Errorf("%+v %v", all, err)
		}
		all, err = c.AllowAll(ctx, append(both, Check{Namespace: "web", Limit: "narrow", Key: "b"}))
		if err != nil || all.Allowed || all.RetryAfter == 0 || all.Results[1].Allowed || all.Results[2].Why != "" {
			t.Errorf("%+v %v", all, err)
		}
		batch, err := c.AllowBatch(ctx, append(both, Check{Namespace: "web", Limit: "no such"}))
		if err != nil || !batch[0].Allowed || batch[0].Remaining != 98 || batch[1].Allowed || !errors.Is(batch[2].Err, ErrInvalid) {
			t.Errorf("%+v %v", batch, err)
		}
	})
}

// TestOverride checks that an override applies for as long as the node says.
func TestOverride(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucketLimit("l", "1/h", 100, quota.Soft)
		cl := newCluster(t, []string{"a", "b"}, l)
		n := cl.node("a")
		n.overrides = append(n.overrides, bannedKey(l.LimitName, "k"))
		c := attachTo(t, cl)
		defer c.Close()
		ready(t, c)
		time.Sleep(10 * time.Millisecond)
		if res, err := c.Allow(t.Context(), "web", "l", "k", 1); err != nil || res.Allowed || res.Why != WhyBanned || res.RetryAfter != Never {
			t.Errorf("banned: %+v %v", res, err)
		}
		if res, err := c.Allow(t.Context(), "web", "l", "other", 1); err != nil || !res.Allowed {
			t.Errorf("another: %+v %v", res, err)
		}
	})
}

// TestBreaker checks that calls fail at once after several failures in a row, and that a successful
// probe closes the circuit.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker{after: 3}
		for range 3 {
			if !b.allow() {
				t.Fatal("open too early")
			}
			b.done(unanswered)
		}
		if open, times := b.state(); !open || times != 1 || b.allow() {
			t.Errorf("open %v, %d times, after three failures", open, times)
		}
		time.Sleep(firstBreak)
		if !b.allow() || b.allow() {
			t.Error("one probe may go, and no second")
		}
		b.done(unanswered)
		time.Sleep(firstBreak / 2)
		if b.allow() {
			t.Error("a probe that failed makes the next wait longer")
		}
		time.Sleep(2 * firstBreak)
		if !b.allow() {
			t.Error("no second probe")
		}
		b.done(withdrawn)
		if !b.allow() {
			t.Error("a caller that hung up has proved nothing")
		}
		b.done(answered)
		if open, _ := b.state(); open || !b.allow() || !b.allow() {
			t.Error("an answer closes the circuit")
		}
		off := breaker{}
		for range 100 {
			off.done(unanswered)
		}
		if !off.allow() {
			t.Error("0 never opens")
		}
	})
}

// TestRemoteFallback checks that in Remote mode the client's own limits, if any, apply while no
// node answers.
func TestRemoteFallback(t *testing.T) {
	n := answering(admit)
	addr, stop := serve(t, n)
	c := newClient(t, []string{addr}, WithTimeout(200*time.Millisecond), WithBreaker(2), WithDefaults(Default{Namespace: "web", Rate: "1/h", Burst: 4}))
	stop()
	passed := 0
	for range 8 {
		res, err := c.Allow(t.Context(), "web", "l", "k", 1)
		if err != nil || res.Mode != ModeFallback {
			t.Fatal(res, err)
		}
		if res.Allowed {
			passed++
		}
	}
	if _, err := c.Allow(t.Context(), "other", "l", "k", 1); !errors.Is(err, ErrUnavailable) {
		t.Errorf("no default fits: %v", err)
	}
	if s := c.Stats(); passed != 4 || s.Calls != 2 || !s.CircuitOpen || s.Broken != 7 || s.Decisions[ModeFallback] != 8 {
		t.Errorf("passed %d, %+v", passed, s)
	}
	if got := c.Bucket("web", "l", "k"); got.Allow() {
		t.Error("a handle follows the same default: it is used up")
	}
	check := func(namespace, key string, cost int64) Check {
		return Check{Namespace: namespace, Limit: "l", Key: key, Cost: cost}
	}
	batch, err := c.AllowBatch(t.Context(), []Check{check("web", "k", 1), check("web", "batch", 3)})
	if err != nil || batch[0].Allowed || !batch[1].Allowed || batch[1].Mode != ModeFallback {
		t.Errorf("a batch follows the same defaults: %+v, %v", batch, err)
	}
	if batch, err = c.AllowBatch(t.Context(), []Check{check("web", "batch", 1), check("other", "k", 1)}); !errors.Is(err, ErrUnavailable) || !batch[0].Allowed {
		t.Errorf("a batch, and no default fits one check: %+v, %v", batch, err)
	}
	all, err := c.AllowAll(t.Context(), []Check{check("web", "all", 3), check("web", "all", 3)})
	if err != nil || all.Allowed || all.RetryAfter <= 0 {
		t.Errorf("all, one too many: %+v, %v", all, err)
	}
	if all, err = c.AllowAll(t.Context(), []Check{check("web", "all", 4), check("web", "other", 4)}); err != nil || !all.Allowed {
		t.Errorf("all, after a call that was refused as a whole: %+v, %v", all, err)
	}
	if _, err = c.AllowAll(t.Context(), []Check{check("web", "more", 1), check("other", "k", 1)}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("all, and no default fits one check: %v", err)
	}
}

// TestStress runs callers of all kinds while nodes come and go, for the race detector.
func TestStress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucketLimit("l", "2000/s", 500, quota.Soft)
		l.Match = &quota.Match{Path: "/**"}
		cl := newCluster(t, []string{"a", "b"}, l)
		c := attachTo(t, cl)
		ready(t, c)
		b := c.Bucket("web", "l", "k")
		var work sync.WaitGroup
		var gross atomic.Int64
		var ended atomic.Uint64 // waits whose context ended, some of them just when they asked again
		for i := range 8 {
			work.Go(func() {
				for n := range 150 {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
					switch (n + i) % 6 {
					case 0:
						if b.Allow() {
							gross.Add(1)
						}
					case 1:
						if res, _ := c.Allow(ctx, "web", "l", "k", 2); res.Allowed {
							gross.Add(2)
						}
					case 2:
						switch err := b.Wait(ctx); {
						case err == nil:
							gross.Add(1)
						case errors.Is(err, ErrTooLong):
							ended.Add(1)
						}
					case 3:
						if r, err := b.ReserveN(ctx, 3); err == nil && r.OK() {
							r.Settle(ctx, 1) // a refund, which nodes count separately
							gross.Add(3)
						}
					case 4:
						if res, _ := c.AllowHTTP(ctx, HTTPCheck{Namespace: "web", Method: "GET", Path: "/x", Key: "k"}); res.Allowed {
							gross.Add(1)
						}
					case 5:
						c.Stats()
						if res, _ := c.AllowBatch(ctx, []Check{{Namespace: "web", Limit: "l", Key: "k"}}); res[0].Allowed {
							gross.Add(1)
						}
					}
					cancel()
					time.Sleep(time.Millisecond)
				}
			})
		}
		for range 3 {
			time.Sleep(40 * time.Millisecond)
			cl.node("a").set(false)
			time.Sleep(30 * time.Millisecond)
			cl.node("a").set(true)
			cl.node("b").set(false)
			time.Sleep(30 * time.Millisecond)
			cl.node("b").set(true)
		}
		work.Wait()
		c.Close()
		if s := c.Stats(); s.Dropped != 0 || s.Bad != 0 || s.Errors > ended.Load() {
			t.Errorf("%d waits ended; %+v", ended.Load(), s)
		}
		if got := cl.booked(l.LimitName).Tokens(); got != gross.Load() {
			t.Errorf("admitted %d, booked %d", gross.Load(), got)
		}
	})
}
