// Package gate is the common part of the middleware for HTTP and gRPC: it asks the limiter about a
// request and decides what happens to it.
//
// Everything that a caller can put into a request either makes a valid check or makes the request
// invalid. So callers cannot cause errors of the limiter, and letting requests pass on errors
// cannot be used to bypass the limit.
package gate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/extract"
	"github.com/quorate/quorate/client/internal/acquires"
	"github.com/quorate/quorate/client/internal/callers"
	"github.com/quorate/quorate/client/internal/deadline"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds of a check.
const (
	MaxMethod = 64      // bytes of a method
	MaxPath   = 8 << 10 // bytes of a path
	MaxJitter = 24 * time.Hour
)

// Outcome is what happens to a request.
type Outcome uint8

const (
	// Pass lets it through: it was admitted, or is not counted. The Result is zero if nobody was asked or answered.
	Pass Outcome = iota
	// Refuse rejects it: the limit is used up.
	Refuse
	// Fault reports it as invalid: it has no key, or an invalid cost. The error may be shown.
	Fault
	// Fail reports a failure: there is no decision, and it must not pass without one.
	Fail
	// Drop gives it up: the caller has gone, or has no time left.
	Drop
)

// Gate describes how to check requests.
type Gate struct {
	Limiter    client.Limiter
	Namespace  string
	Limit      string // "" means the match rules of the namespace
	Key        extract.Key
	Missing    extract.Missing
	Cost       extract.Cost  // nil means 1
	Timeout    time.Duration // 0 means the limiter's own
	FailClosed bool
	Jitter     time.Duration                // maximum of a random addition to RetryAfter
	OnError    func(context.Context, error) // may be nil

	inFlight *atomic.Bool // whether it is a concurrency limit, as far as known; made by Validate
	counts   *atomic.Bool // whether it has been another limit; made by Validate
}

// Validate returns the program's mistake in g.
func (g *Gate) Validate(rules bool) error {
	switch {
	case g.Limiter == nil:
		return errors.New("the limiter is nil; must be a client.Limiter")
	case g.Limit == "" && !rules:
		return errors.New("no limit to check; give Limit(namespace, limit) or Rules(namespace)")
	case g.Limit != "" && g.Namespace == "":
		return fmt.Errorf("the namespace of the limit %q is empty", g.Limit)
	case g.Timeout < 0:
		return fmt.Errorf("the timeout is %v; must be more than 0", g.Timeout)
	case g.Jitter < 0 || g.Jitter > MaxJitter:
		return fmt.Errorf("the jitter is %v; must be 0 to %v", g.Jitter, MaxJitter)
	}
	g.inFlight, g.counts = new(atomic.Bool), new(atomic.Bool)
	if l, ok := g.Limiter.(interface{ FailsClosed() bool }); ok && l.FailsClosed() {
		g.FailClosed = true
	}
	return nil
}

// Ask checks a request, by its method and path if rules decide, and waits if the limit says so. A
// concurrency limit admits nothing.
func (g *Gate) Ask(r extract.Request, method, path string) (client.Result, Outcome, error) {
	res, _, outcome, err := g.enter(r, method, path, false)
	return res, outcome, err
}

// Enter is Ask for a request whose end is known: for a concurrency limit it takes as many
// places as the request costs, and keeps them until leave is called. leave is never nil.
func (g *Gate) Enter(r extract.Request, method, path string) (res client.Result, leave func(), outcome Outcome, err error) {
	res, place, outcome, err := g.enter(r, method, path, true)
	if place == nil {
		return res, func() {}, outcome, err
	}
	ctx := context.WithoutCancel(r.Context())
	leave = func() { _ = place.Cancel(ctx) } // its lease ends it if no node hears it
	if outcome != Pass {
		leave()
		leave = func() {}
	}
	return res, leave, outcome, err
}

func (g *Gate) enter(r extract.Request, method, path string, ends bool) (client.Result, *client.Reservation, Outcome, error) {
	res, place, outcome, err := g.decide(r, method, path, ends)
	if outcome != Pass {
		return res, place, outcome, err
	}
	if ended := deadline.Err(r.Context()); ended != nil { // while the limiter was asked
		return res, place, Drop, ended
	}
	return res, place, Pass, err
}

func (g *Gate) decide(r extract.Request, method, path string, ends bool) (client.Result, *client.Reservation, Outcome, error) {
	key, skip, err := g.Missing.Of(g.Key, r)
	if err != nil {
		return client.Result{}, nil, Fault, err
	}
	if skip {
		return client.Result{}, nil, Pass, nil
	}
	cost, err := g.Cost.Of(r)
	if err != nil {
		return client.Result{}, nil, Fault, err
	}
	if g.Limit == "" {
		if method, path, err = fit(method, path); err != nil {
			return client.Result{}, nil, Fault, err
		}
	}
	ctx := r.Context()
	res, place, err := g.check(ctx, method, path, key, cost, ends)
	if err != nil {
		res, outcome, err := g.failed(ctx, err)
		return res, nil, outcome, err
	}
	if !res.Allowed {
		res.RetryAfter = later(res.RetryAfter, g.Jitter)
		return res, nil, Refuse, nil
	}
	if res.Wait > 0 {
		if err := backoff.Sleep(ctx, res.Wait); err != nil {
			if place == nil {
				GiveBack(ctx, g.Limiter, g.Namespace, g.Limit, key, cost)
			}
			return res, place, Drop, err
		}
	}
	return res, place, Pass, nil
}

// GiveBack gives back the tokens to come of a caller that left before they came, as [client.Bucket.Wait]
// does. It can do so only at a limiter that has Refund, and if the limit is known by its name.
func GiveBack(ctx context.Context, l client.Limiter, namespace, limit, key string, tokens int64) {
	r, can := l.(interface {
		Refund(ctx context.Context, namespace, limit, key string, tokens int64) error
	})
	if can && limit != "" {
		_ = r.Refund(context.WithoutCancel(ctx), namespace, limit, key, tokens) // else they count as used
	}
}

// check takes tokens, or places if that is what the limit counts. It learns this from the answers,
// because the limit may change.
func (g *Gate) check(ctx context.Context, method, path, key string, cost int64, ends bool) (client.Result, *client.Reservation, error) {
	a, can := g.Limiter.(client.Acquirer)
	can = can && ends && g.Limit != ""
	if !can || !g.inFlight.Load() {
		asked := ctx
		if can && !g.counts.Load() {
			asked = acquires.NewContext(ctx)
		}
		res, err := g.ask(asked, method, path, key, cost)
		if !can || !errors.Is(err, client.ErrUseAcquire) {
			if err == nil && res.Mode != client.ModeFallback {
				g.counts.Store(true)
			}
			return res, nil, err
		}
		g.inFlight.Store(true)
	}
	place, err := g.acquire(ctx, a, key, cost)
	switch {
	case errors.Is(err, client.ErrInvalid):
		g.inFlight.Store(false)
		res, err := g.ask(ctx, method, path, key, cost)
		return res, nil, err
	case err != nil:
		return client.Result{}, nil, err
	case !place.OK():
		return place.Result, nil, nil
	}
	place.KeepAlive(context.WithoutCancel(ctx))
	return place.Result, place, nil
}

// acquire waits for the answer even if the caller leaves, so that its places can be released: those of
// an answer that nobody hears are taken until their lease ends. Callers that leave at once could
// otherwise take all places of a limit.
func (g *Gate) acquire(ctx context.Context, a client.Acquirer, key string, n int64) (*client.Reservation, error) {
	if err := deadline.Err(ctx); err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	if g.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, g.Timeout)
		defer cancel()
	}
	return a.Acquire(ctx, g.Namespace, g.Limit, key, n, 0)
}

func (g *Gate) ask(ctx context.Context, method, path, key string, cost int64) (client.Result, error) {
	ctx = callers.For(ctx)
	if g.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, g.Timeout)
		defer cancel()
	}
	if g.Limit != "" {
		return g.Limiter.Allow(ctx, g.Namespace, g.Limit, key, cost)
	}
	return g.Limiter.AllowHTTP(ctx, client.HTTPCheck{Namespace: g.Namespace, Method: method, Path: path, Key: key, Cost: cost})
}

// later adds up to jitter at random.
func later(d, jitter time.Duration) time.Duration {
	if jitter == 0 || d >= client.Never-MaxJitter {
		return d
	}
	return d + rand.N(jitter+1)
}

// failed decides without an answer. A request whose deadline passes does not pass: otherwise
// callers could bypass the limit with a short deadline.
func (g *Gate) failed(ctx context.Context, err error) (client.Result, Outcome, error) {
	if ended := deadline.Err(ctx); ended != nil {
		return client.Result{}, Drop, ended
	}
	if g.OnError != nil {
		g.OnError(ctx, err)
	}
	if g.FailClosed || errors.Is(err, client.ErrUseAcquire) {
		return client.Result{}, Fail, err
	}
	return client.Result{}, Pass, err
}

// fit makes method and path, which is decoded, valid for every limiter.
func fit(method, path string) (string, string, error) {
	if method == "" {
		method = "GET" // as net/http has it
	}
	if len(method) > MaxMethod {
		return "", "", fmt.Errorf("the method has %d bytes; at most %d", len(method), MaxMethod)
	}
	if len(path) >= MaxPath {
		return "", "", fmt.Errorf("the path has %d bytes; less than %d", len(path), MaxPath)
	}
	if !utf8.ValidString(method) {
		method = strings.ToValidUTF8(method, "?")
	}
	path = quota.WholePath(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // OPTIONS *
	}
	return method, path, nil
}

// Turn asks until the answer is not Refuse, and waits for up to most in total. It returns Drop if
// the context ends.
func Turn(ctx context.Context, most time.Duration, ask func() (client.Result, Outcome, error)) (client.Result, Outcome, error) {
	for {
		res, outcome, err := ask()
		if outcome != Refuse {
			return res, outcome, err
		}
		d := max(res.RetryAfter, time.Millisecond) // never in a tight loop
		if d > most {
			return res, Refuse, nil
		}
		most -= d
		if err := backoff.Sleep(ctx, d); err != nil {
			return res, Drop, err
		}
	}
}
