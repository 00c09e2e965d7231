// Package requester limits functions: each call takes a token before it runs. It is a small
// interface for limits of a service's own actions, backed by a Quorate cluster.
//
//	r := requester.New(c, "web", "per_client", "acme", requester.WithQueue(100))
//	fetch := requester.Limit(ctx, r, func(ctx context.Context) (string, error) { ... })
//	page, err := fetch(ctx)
//	if errors.Is(err, requester.ErrRefused) { ... }
package requester

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/internal/deadline"
	"github.com/quorate/quorate/client/internal/gate"
	"github.com/quorate/quorate/internal/backoff"
)

// TokenRequester takes tokens from a fixed bucket.
type TokenRequester interface {
	// RequestToken returns nil if it has taken a token, else an error. It is safe for concurrent
	// use.
	RequestToken(ctx context.Context) error
}

// Action is a function to limit.
type Action[T any] func(context.Context) (T, error)

// Limit returns the action limited by the requester: each call first takes a token, and returns the
// requester's error if none is available. When ctx ends, running calls are cancelled, and further ones
// return its error.
func Limit[T any](ctx context.Context, r TokenRequester, action Action[T]) Action[T] {
	return func(call context.Context) (out T, err error) {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		call, cancel := context.WithCancelCause(call)
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
		if err := r.RequestToken(call); err != nil {
			return out, err
		}
		return action(call)
	}
}

// Errors in addition to those of package client.
var (
	// ErrRefused reports that the limit is used up. The error is a [*Refused].
	ErrRefused = errors.New("refused")
	// ErrQueueFull reports that the maximum number of calls is waiting. The error is a [*Refused],
	// too.
	ErrQueueFull = errors.New("too many waiting calls")
)

// Refused is the error of a call that got no token.
type Refused struct {
	Result client.Result // the decision
	full   bool
}

// Error implements error.
func (r *Refused) Error() string {
	why := string(r.Result.Why)
	if r.full {
		why = "too many waiting calls"
	}
	if r.Result.RetryAfter == client.Never {
		return fmt.Sprintf("quorate: %s/%s: %s", r.Result.Limit.Namespace, r.Result.Limit.Name, why)
	}
	return fmt.Sprintf("quorate: %s/%s: %s; again in %v", r.Result.Limit.Namespace, r.Result.Limit.Name, why, r.Result.RetryAfter)
}

// Is implements errors.Is for ErrRefused and ErrQueueFull.
func (r *Refused) Is(target error) bool {
	return target == ErrRefused || r.full && target == ErrQueueFull
}

// RetryAfter returns when the same call could pass if nobody else asks; [client.Never] if it never
// can.
func (r *Refused) RetryAfter() time.Duration { return r.Result.RetryAfter }

// Option configures a requester.
type Option func(*bucket)

// WithCost sets the number of tokens of a call, 1 or more. The default is 1.
func WithCost(tokens int64) Option { return func(b *bucket) { b.cost = tokens } }

// WithQueue lets up to n calls wait for tokens, each until its context ends. Without it a refused
// call fails at once. Calls are served in order of arrival.
func WithQueue(n int) Option { return func(b *bucket) { b.most = int64(n) } }

// WithErrors makes calls fail if there is no decision: no node answered, or the limit is unknown.
// By default they pass, unless the limiter is a client with client.WithFailClosed. A concurrency limit
// admits nothing here.
func WithErrors() Option { return func(b *bucket) { b.strict = true } }

// bucket is a TokenRequester for one key.
type bucket struct {
	limiter               client.Limiter
	namespace, limit, key string

	cost    int64
	strict  bool
	most    int64
	waiting atomic.Int64
	turn    chan struct{}
}

// New returns a requester for one key of a limit. It waits for future tokens, which limits with
// max_wait grant.
func New(l client.Limiter, namespace, limit, key string, opts ...Option) TokenRequester {
	b := &bucket{limiter: l, namespace: namespace, limit: limit, key: key, cost: 1, turn: make(chan struct{}, 1)}
	for _, opt := range opts {
		opt(b)
	}
	if l, ok := l.(interface{ FailsClosed() bool }); ok && l.FailsClosed() {
		b.strict = true
	}
	return b
}

// RequestToken implements TokenRequester.
func (b *bucket) RequestToken(ctx context.Context) error {
	if b.waiting.Load() == 0 { // nobody was here before
		if r, err := b.ask(ctx); err != nil || r == nil {
			return err
		} else if b.most == 0 {
			return r
		}
	}
	return b.queue(ctx)
}

// ask takes the tokens, or returns why not.
func (b *bucket) ask(ctx context.Context) (*Refused, error) {
	res, err := b.limiter.Allow(ctx, b.namespace, b.limit, b.key, b.cost)
	switch {
	case deadline.Err(ctx) != nil && err != nil:
		return nil, err
	case err != nil && (b.strict || errors.Is(err, client.ErrInvalid) || errors.Is(err, client.ErrClosed) || errors.Is(err, client.ErrUseAcquire)):
		return nil, err
	case err != nil:
		return nil, nil // nobody has decided
	case !res.Allowed:
		return &Refused{Result: res}, nil
	}
	if res.Wait > 0 {
		if err := backoff.Sleep(ctx, res.Wait); err != nil {
			gate.GiveBack(ctx, b.limiter, b.namespace, b.limit, b.key, b.cost)
			return nil, err
		}
	}
	return nil, nil
}

// queue waits for the call's turn, then for the tokens.
func (b *bucket) queue(ctx context.Context) error {
	if b.waiting.Add(1) > b.most {
		b.waiting.Add(-1)
		return &Refused{Result: client.Result{Limit: client.Limit{Namespace: b.namespace, Name: b.limit}, Why: client.WhyOverLimit}, full: true}
	}
	defer b.waiting.Add(-1)
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		r, err := b.ask(ctx)
		if err != nil || r == nil {
			return err
		}
		if r.Result.RetryAfter == client.Never {
			return r
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < r.Result.RetryAfter {
			return r // it would come too late
		}
		if err := backoff.Sleep(ctx, max(r.Result.RetryAfter, time.Millisecond)); err != nil {
			return err
		}
	}
}
