package httplimit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/extract"
	"github.com/quorate/quorate/client/internal/gate"
	"github.com/quorate/quorate/internal/backoff"
)

// Transport is an http.RoundTripper that checks before it sends. Create it with NewTransport.
type Transport struct {
	asking
	base   http.RoundTripper
	wait   time.Duration
	honour time.Duration
	holds  holds
}

// NewTransport returns a RoundTripper that asks l and then sends with base; nil means
// http.DefaultTransport.
func NewTransport(l client.Limiter, base http.RoundTripper, opts ...TransportOption) *Transport {
	t := &Transport{base: base}
	if base == nil {
		t.base = http.DefaultTransport
	}
	t.Limiter, t.Gate.Key = l, extract.Host()
	for _, o := range opts {
		o.transport(t)
	}
	err := t.Validate(t.rules)
	if err == nil && (t.wait < 0 || t.honour < 0) {
		err = fmt.Errorf("Wait: %v, Honour: %v; must not be negative", t.wait, t.honour)
	}
	if err != nil {
		panic("httplimit: NewTransport: " + err.Error()) // invariant: the program's own options
	}
	return t
}

// ErrRefused matches every [*RefusedError] with errors.Is.
var ErrRefused = errors.New("refused by a rate limit")

// RefusedError reports a request that was not sent.
type RefusedError struct {
	Result client.Result // of the limiter; zero if Host asked to be avoided
	Host   string        // destination of the request
	// RetryAfter is when to retry; client.Never if waiting does not help.
	RetryAfter time.Duration
}

// Error implements error.
func (e *RefusedError) Error() string {
	who := "the limit " + e.Result.Limit.Name
	if e.Result.Limit.Name == "" {
		who = "an answer of " + e.Host
	}
	if e.RetryAfter == client.Never {
		return "httplimit: " + who + " does not admit this request"
	}
	return fmt.Sprintf("httplimit: %s admits more in %v", who, e.RetryAfter)
}

// Unwrap lets errors.Is find ErrRefused.
func (e *RefusedError) Unwrap() error { return ErrRefused }

// RoundTrip implements http.RoundTripper. Its own errors are a [*RefusedError], with [FailClosed]
// that of the limiter, and that of the request's context.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.skips(r) {
		return t.base.RoundTrip(r)
	}
	if err := t.await(r); err != nil {
		if r.Body != nil {
			r.Body.Close() //nolint:errcheck // the error below is the one that matters
		}
		return nil, err
	}
	res, err := t.base.RoundTrip(r)
	if err == nil && t.honour > 0 {
		t.holds.learn(r.URL.Host, res, t.honour)
	}
	return res, err
}

// await waits until the request may be sent. It first waits for as long as the host has asked for,
// so that no tokens are wasted.
func (t *Transport) await(r *http.Request) error {
	left := t.wait
	for t.honour > 0 {
		d := t.holds.of(r.URL.Host)
		if d <= 0 {
			break
		}
		if d > left {
			return &RefusedError{Host: r.URL.Host, RetryAfter: d}
		}
		left -= d
		if err := backoff.Sleep(r.Context(), d); err != nil {
			return err
		}
	}
	res, outcome, err := gate.Turn(r.Context(), left, func() (client.Result, gate.Outcome, error) {
		return t.Ask(extract.Request{HTTP: r}, r.Method, r.URL.Path)
	})
	switch outcome {
	case gate.Pass:
		return nil
	case gate.Refuse:
		return &RefusedError{Result: res, Host: r.URL.Host, RetryAfter: res.RetryAfter}
	}
	return fmt.Errorf("httplimit: %w", err)
}

// jitter adds up to a tenth, to spread retries.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(int64(d/10)+1))
}
