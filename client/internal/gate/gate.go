// Package gate is what middleware for HTTP and for gRPC have in common: it asks
// the limiter about a request, and says what is to become of it.
//
// Whatever a caller can put into a request either makes a valid check or makes
// the request faulty. So an error of the limiter is never of the caller's
// making, and letting requests pass on errors opens no way around the limit.
package gate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/extract"
)

// Bounds of what is asked with.
const (
	MaxMethod = 64      // bytes of a method
	MaxPath   = 8 << 10 // bytes of a path
	MaxJitter = 24 * time.Hour
)

// Outcome says what is to become of a request.
type Outcome uint8

const (
	// Pass it: it was admitted, or is not to be counted. The Result is zero if
	// nobody was asked, or nobody answered.
	Pass Outcome = iota
	// Refuse it: the limit is used up.
	Refuse
	// Fault it: it has no key, or a bad cost. The error may be shown.
	Fault
	// Fail it: nobody could say, and it is not to pass then.
	Fail
	// Drop it: whoever asked has gone, or has no time left.
	Drop
)

// Gate says how to ask.
type Gate struct {
	Limiter    client.Limiter
	Namespace  string
	Limit      string // "" for the match rules of the namespace
	Key        extract.Key
	Missing    extract.Missing
	Cost       extract.Cost  // nil for 1
	Timeout    time.Duration // 0 leaves it to the limiter
	FailClosed bool
	Jitter     time.Duration                // added to RetryAfter at random, up to this
	OnError    func(context.Context, error) // may be nil
}

// Validate says what is wrong with g, as an error of whoever wrote the program.
func (g *Gate) Validate(rules bool) error {
	switch {
	case g.Limiter == nil:
		return errors.New("the limiter is nil; must be a client.Limiter")
	case g.Limit == "" && !rules:
		return errors.New("nothing to ask for; give Limit(namespace, limit) or Rules(namespace)")
	case g.Limit != "" && g.Namespace == "":
		return fmt.Errorf("the namespace of the limit %q is empty", g.Limit)
	case g.Timeout < 0:
		return fmt.Errorf("the timeout is %v; must be more than 0", g.Timeout)
	case g.Jitter < 0 || g.Jitter > MaxJitter:
		return fmt.Errorf("the jitter is %v; must be 0 to %v", g.Jitter, MaxJitter)
	}
	return nil
}

// Ask asks about a request, by its method and path where rules decide, and waits
// if the limit says so.
func (g *Gate) Ask(r extract.Request, method, path string) (client.Result, Outcome, error) {
	key, skip, err := g.Missing.Of(g.Key, r)
	if err != nil {
		return client.Result{}, Fault, err
	}
	if skip {
		return client.Result{}, Pass, nil
	}
	cost, err := g.Cost.Of(r)
	if err != nil {
		return client.Result{}, Fault, err
	}
	if g.Limit == "" {
		if method, path, err = fit(method, path); err != nil {
			return client.Result{}, Fault, err
		}
	}
	ctx := r.Context()
	res, err := g.ask(ctx, method, path, key, cost)
	if err != nil {
		return g.failed(ctx, err)
	}
	if !res.Allowed {
		res.RetryAfter = later(res.RetryAfter, g.Jitter)
		return res, Refuse, nil
	}
	if res.Wait > 0 {
		if err := Sleep(ctx, res.Wait); err != nil {
			return res, Drop, err
		}
	}
	return res, Pass, nil
}

func (g *Gate) ask(ctx context.Context, method, path, key string, cost int64) (client.Result, error) {
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

// later adds up to jitter, at random.
func later(d, jitter time.Duration) time.Duration {
	if jitter == 0 || d >= client.Never-MaxJitter {
		return d
	}
	return d + rand.N(jitter+1)
}

// failed decides without an answer. Who runs out of time while asking does not
// pass: a caller that sets the deadline could get around the limit with it.
func (g *Gate) failed(ctx context.Context, err error) (client.Result, Outcome, error) {
	if ctx.Err() != nil {
		return client.Result{}, Drop, ctx.Err()
	}
	if g.OnError != nil {
		g.OnError(ctx, err)
	}
	if g.FailClosed {
		return client.Result{}, Fail, err
	}
	return client.Result{}, Pass, err
}

// fit makes method and path such that every limiter takes them.
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
	if !utf8.ValidString(path) {
		path = strings.ToValidUTF8(path, "?")
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // OPTIONS *
	}
	return method, path, nil
}

// Turn asks until the answer is another than Refuse, waiting no longer than most
// in all. A context that ends meanwhile is Drop.
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
		if err := Sleep(ctx, d); err != nil {
			return res, Drop, err
		}
	}
}

// Sleep waits for d, or until ctx ends, and returns its error then.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
