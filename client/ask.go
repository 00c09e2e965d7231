package client

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/client/internal/callers"
)

type call func(context.Context, quoratev1.QuotaServiceClient) error

// ask calls f with one node after the other until one answers, unless the circuit is open. If f
// must not be executed twice, it returns its error through [markMaybeCharged].
func (c *Client) ask(ctx context.Context, f call) error {
	if c.closed.Load() {
		return errClosed()
	}
	if !c.breaker.allow() {
		c.stats.broken.Add(1)
		return &Error{Kind: ErrUnavailable, Detail: "no node has answered recently; the circuit is open"}
	}
	outer, start := ctx, time.Now()
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.opts.timeout)
		defer cancel()
	}
	c.stats.calls.Add(1)
	err := c.askEach(ctx, f)
	o := outcomeOf(err)
	if o == unanswered && (errors.Is(outer.Err(), context.Canceled) || callers.Hurried(outer, time.Since(start))) {
		o = withdrawn
	}
	if o == unanswered && ctx.Err() != nil {
		c.stats.timeouts.Add(1)
	}
	if c.breaker.done(o) {
		effect := c.notices.without
		if c.member != nil {
			effect = c.member.effect()
		}
		c.notices.unanswered(c.clock.now(), 0, effect, c.stats.explain(err.Error()))
	}
	return err
}

// outcomeOf returns whether a node has answered. An error that the node returned is an answer.
func outcomeOf(err error) outcome {
	var e *Error
	switch {
	case err == nil || !errors.As(err, &e) || e.Cause != nil && !worthAnother(e.Cause) && !errors.Is(err, context.Canceled):
		return answered
	case errors.Is(err, ErrClosed) || errors.Is(err, context.Canceled):
		return withdrawn
	}
	return unanswered
}

func (c *Client) askEach(ctx context.Context, f call) error {
	all := c.nodes.all()
	first := c.nodes.current.Load()
	var last error = &Error{Kind: ErrUnavailable, Detail: "no known node"}
	for i := range all {
		if c.closed.Load() {
			return errClosed()
		}
		at := (first + uint32(i)) % uint32(len(all))
		n := all[at]
		err := attempt(ctx, 1+reachable(all, at, len(all)-1-i), n, f)
		if err == nil {
			if i > 0 {
				c.nodes.current.CompareAndSwap(first, at)
			}
			return nil
		}
		forgotten := status.Code(err) == codes.Canceled && ctx.Err() == nil // while it was asked
		if !worthAnother(err) && !forgotten {
			return fromError(err, n.addr)
		}
		last = fromError(err, n.addr)
		if twice := (*maybeCharged)(nil); errors.As(err, &twice) {
			break
		}
		if ctx.Err() != nil {
			c.nodes.current.CompareAndSwap(first, (at+1)%uint32(len(all)))
			break
		}
	}
	if c.closed.Load() {
		return errClosed()
	}
	return last
}

// reachable counts the nodes after at that may answer: those whose last connection attempt has not
// failed. The others fail immediately when asked, and need no time.
func reachable(all []*node, at uint32, behind int) (n int) {
	for i := range behind {
		next := all[(int(at)+1+i)%len(all)]
		if next.conn.GetState() != connectivity.TransientFailure {
			n++
		}
	}
	return n
}

// attempt asks one node, and leaves time for the remaining ones.
func attempt(ctx context.Context, left int, n *node, f call) error {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	return f(ctx, n.quota)
}

func errClosed() error { return &Error{Kind: ErrClosed, Detail: "the client is closed"} }
