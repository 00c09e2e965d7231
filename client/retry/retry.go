// Package retry repeats calls that were refused for lack of tokens, or not answered, after
// exponential backoff with full jitter, so that calls that were refused together are not repeated
// together.
//
//	page, err := retry.Do(ctx, func(ctx context.Context) (string, error) { return fetch(ctx) }, retry.Times(5))
//
// It is a separate package so that the client has no further dependency.
package retry

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/client"
)

// The defaults of [Do].
const (
	DefaultFirst = 100 * time.Millisecond // maximum of the first pause
	DefaultMost  = 10 * time.Second       // maximum of every pause
	DefaultTimes = 5                      // calls in total
)

// Option configures Do.
type Option func(*options)

type options struct {
	first, most time.Duration
	times       int
	again       func(error) bool
}

// Times bounds the number of calls, including the first; below 1 means 1.
func Times(n int) Option { return func(o *options) { o.times = max(n, 1) } }

// Pauses bounds the pauses: each is random between 0 and first, then twice as much and so on, up to
// most. Both must be positive, and are at most a year.
func Pauses(first, most time.Duration) Option {
	return func(o *options) { o.first, o.most = min(first, year), min(most, year) }
}

const year = 365 * 24 * time.Hour

// If decides which errors are retried; the default is [Worth].
func If(again func(error) bool) Option { return func(o *options) { o.again = again } }

// Do calls f until it succeeds, returns an error that is not retried, the number of calls is
// reached, or ctx ends. If an error says when to retry (by a method RetryAfter, or gRPC's
// RetryInfo), the pause is at least that long. If that is beyond the deadline of ctx, or is
// [client.Never], there is no further call, whatever If decides. Do returns the result of the last
// call.
func Do[T any](ctx context.Context, f func(context.Context) (T, error), opts ...Option) (T, error) {
	o := options{first: DefaultFirst, most: DefaultMost, times: DefaultTimes, again: Worth}
	for _, opt := range opts {
		opt(&o)
	}
	pauses := &jitter{ctx: ctx, random: &backoff.ExponentialBackOff{
		// The interval, all of it to chance: from 0 to twice as much.
		InitialInterval: max(o.first/2, 1), MaxInterval: max(o.most/2, 1), Multiplier: 2, RandomizationFactor: 1,
	}}
	var out T
	var last error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		out, last = f(ctx)
		after, _ := After(last)
		if last != nil && (after == client.Never || !o.again(last)) {
			return struct{}{}, backoff.Permanent(last)
		}
		pauses.from = max(after, 0)
		return struct{}{}, last
	}, backoff.WithBackOff(pauses), backoff.WithMaxTries(uint(o.times)), backoff.WithMaxElapsedTime(0))
	if err != nil && last == nil {
		return out, err
	}
	return out, last
}

// jitter computes the pauses; from is the minimum that the last error asked for.
type jitter struct {
	ctx    context.Context
	random *backoff.ExponentialBackOff
	from   time.Duration
}

func (j *jitter) Reset() { j.random.Reset() }

func (j *jitter) NextBackOff() time.Duration {
	d := max(j.from, j.from+j.random.NextBackOff()) // the sum may overflow
	if deadline, ok := j.ctx.Deadline(); ok && time.Until(deadline) < j.from {
		return backoff.Stop
	}
	return d
}

// Worth reports whether the same call may pass later: it was refused but not for good, no node
// answered, or too many callers were waiting. It returns false for a denied call.
func Worth(err error) bool {
	if after, ok := After(err); ok {
		return after != client.Never
	}
	switch status.Code(err) {
	case codes.ResourceExhausted, codes.Unavailable:
		return true
	}
	if errors.Is(err, client.ErrDenied) {
		return false
	}
	return errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrTooManyWaiting)
}

// After returns when an error says to retry, and whether it does.
func After(err error) (time.Duration, bool) {
	if err == nil {
		return 0, false
	}
	var r interface{ RetryAfter() time.Duration }
	if errors.As(err, &r) {
		return r.RetryAfter(), true
	}
	if st, ok := status.FromError(err); ok {
		for _, d := range st.Details() {
			if info, ok := d.(*errdetails.RetryInfo); ok {
				return info.GetRetryDelay().AsDuration(), true
			}
		}
	}
	return 0, false
}
