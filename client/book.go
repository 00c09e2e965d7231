package client

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/quorate/quorate/aggregator"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Refund gives back tokens that were taken and not used: 1 or more. The level never
// rises above the burst. While the limit is not known nothing happens. Where a node does it and
// its answer is lost, no other is asked: after [ErrUnavailable] it may have been done.
func (c *Client) Refund(ctx context.Context, namespace, limit, key string, tokens int64) error {
	k, err := c.booking(namespace, limit, key, tokens)
	if err != nil {
		return err
	}
	return c.refund(ctx, k, tokens, nil)
}

// taken says when tokens were taken that may be given back later, and in which windows.
type taken struct {
	at      quota.Time
	windows *aggregator.Taken
	res     Result
}

// over reports whether the window has ended that a node has charged.
func (t *taken) over(now quota.Time) bool {
	for _, p := range t.res.Policies {
		if p.Windowed && now.Sub(t.at) >= t.res.ResetAfter {
			return true
		}
	}
	return false
}

// take is Check, and says what is to be known to give the tokens back later.
func (b *Bucket) take(ctx context.Context, n int64) (Result, *taken, error) {
	at := b.c.clock.now()
	t := &taken{at: at, windows: &aggregator.Taken{At: at}}
	var err error
	t.res, err = b.check(ctx, n, t)
	return t.res, t, err
}

// refund gives tokens back; t is nil if they were taken just now. What was taken in a window
// that has ended is not given back: it would raise the next one.
func (c *Client) refund(ctx context.Context, k quota.Key, tokens int64, t *taken) error {
	if r, asks := c.limits(k); !asks {
		if r == nil {
			return nil
		}
		agg := c.member.agg.Load()
		var d quota.Decision
		if t == nil {
			d = agg.Refund(c.clock.now, k.LimitName, k.Key, tokens)
		} else {
			d = agg.RefundTaken(c.clock.now, k.LimitName, k.Key, tokens, t.windows)
		}
		c.member.poke()
		_, err := c.resultOf(r, k, &d)
		return err
	}
	if t != nil && t.over(c.clock.now()) {
		return nil
	}
	return c.ask(ctx, func(ctx context.Context, q quoratev1.QuotaServiceClient) error {
		var sent peer.Peer
		_, err := q.Refund(ctx, &quoratev1.RefundRequest{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key, Cost: &tokens}, grpc.Peer(&sent))
		return once(err, &sent)
	})
}

// Report books what has been used already, 1 token or more, whatever the level is:
// it can fall below zero, down to a bound of the limit. It returns how many tokens
// were booked; 0 while the limit is not known. After [ErrUnavailable] it may have been booked, as
// with Refund.
func (c *Client) Report(ctx context.Context, namespace, limit, key string, used int64) (booked int64, err error) {
	k, err := c.booking(namespace, limit, key, used)
	if err != nil {
		return 0, err
	}
	return c.report(ctx, k, used)
}

func (c *Client) report(ctx context.Context, k quota.Key, used int64) (booked int64, err error) {
	if r, asks := c.limits(k); !asks {
		if r == nil {
			return 0, nil
		}
		booked, d := c.member.agg.Load().Charge(c.clock.now, k.LimitName, k.Key, used)
		c.member.poke()
		_, err := c.resultOf(r, k, &d)
		return booked, err
	}
	err = c.ask(ctx, func(ctx context.Context, q quoratev1.QuotaServiceClient) error {
		var sent peer.Peer
		res, err := q.Report(ctx, &quoratev1.ReportRequest{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key, Used: used}, grpc.Peer(&sent))
		booked = res.GetBooked()
		return once(err, &sent)
	})
	return booked, err
}

// booking checks what is to be booked.
func (c *Client) booking(namespace, limit, key string, tokens int64) (quota.Key, error) {
	k, err := checked(namespace, limit, key, tokens)
	if err == nil {
		err = c.bookable(tokens)
	}
	return k, err
}

func (c *Client) bookable(tokens int64) error {
	switch {
	case c.closed.Load():
		return errClosed()
	case tokens < 1 || tokens > quota.MaxTokens:
		return invalid("tokens", "tokens: must be 1 or more")
	}
	return nil
}

// limits returns the limits that this process books by; asks if a node has to.
func (c *Client) limits(k quota.Key) (r *rules, asks far) {
	if c.member == nil {
		return nil, true
	}
	r = c.member.known.Load()
	return r, far(r != nil && r.isFar(k.LimitName))
}
