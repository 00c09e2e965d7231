package client

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/quorate/quorate/aggregator"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Refund gives back tokens, 1 or more, that were taken and not used. The level never rises above
// the burst. It does nothing while the limit is unknown. If a node executes it and its answer is
// lost, no other node is asked: after [ErrUnavailable] it may have been executed.
func (c *Client) Refund(ctx context.Context, namespace, limit, key string, tokens int64) error {
	k, err := c.booking(namespace, limit, key, tokens)
	if err != nil {
		return err
	}
	return c.refund(ctx, k, tokens, nil)
}

// chargeTime records when, and in which windows, tokens were taken, for a later refund.
type chargeTime struct {
	at      quota.Time
	windows *aggregator.Taken
	res     Result
}

// over reports whether the window that a node charged has ended.
func (t *chargeTime) over(now quota.Time) bool {
	for _, p := range t.res.Policies {
		if p.Windowed && now.Sub(t.at) >= t.res.ResetAfter {
			return true
		}
	}
	return false
}

// spend is Check, and also returns what a later refund needs.
func (b *Bucket) spend(ctx context.Context, n int64) (Result, *chargeTime, error) {
	at := b.c.clock.now()
	t := &chargeTime{at: at, windows: &aggregator.Taken{At: at}}
	var err error
	t.res, err = b.check(ctx, n, t)
	return t.res, t, err
}

// refund gives tokens back; t is nil if they were taken just now. Tokens of a window that has ended
// are not given back, because that would raise the next one.
func (c *Client) refund(ctx context.Context, k quota.Key, tokens int64, t *chargeTime) error {
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
		c.member.wakeRun()
		_, err := c.resultOf(r, k, &d)
		return err
	}
	if t != nil && t.over(c.clock.now()) {
		return nil
	}
	return c.ask(ctx, func(ctx context.Context, q quoratev1.QuotaServiceClient) error {
		var sent peer.Peer
		_, err := q.Refund(ctx, &quoratev1.RefundRequest{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key, Cost: &tokens}, grpc.Peer(&sent))
		return markMaybeCharged(err, &sent)
	})
}

// Report books tokens, 1 or more, that have been used already, whatever the level is. The level may
// fall below zero, down to a bound of the limit. Report returns how many tokens it booked; 0 while
// the limit is unknown. After [ErrUnavailable] the report may have been booked, as with Refund.
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
		c.member.wakeRun()
		_, err := c.resultOf(r, k, &d)
		return booked, err
	}
	err = c.ask(ctx, func(ctx context.Context, q quoratev1.QuotaServiceClient) error {
		var sent peer.Peer
		res, err := q.Report(ctx, &quoratev1.ReportRequest{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key, Used: used}, grpc.Peer(&sent))
		booked = res.GetBooked()
		return markMaybeCharged(err, &sent)
	})
	return booked, err
}

// booking validates the arguments of a booking.
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
		return invalid("tokens", fmt.Sprintf("tokens: %d; must be 1 to %d", tokens, quota.MaxTokens))
	}
	return nil
}

// limits returns the limits by which this process books, or that a node has to.
func (c *Client) limits(k quota.Key) (r *rules, asks needsNode) {
	if c.member == nil {
		return nil, true
	}
	r = c.member.known.Load()
	return r, needsNode(r != nil && (r.needsNode(k.LimitName) || !r.mayReport(k.LimitName)))
}
