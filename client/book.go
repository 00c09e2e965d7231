package client

import (
	"context"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Refund gives back tokens that were taken and not used: 1 or more. The level never
// rises above the burst. While the limit is not known nothing happens.
func (c *Client) Refund(ctx context.Context, namespace, limit, key string, tokens int64) error {
	k, err := c.booking(namespace, limit, key, tokens)
	if err != nil {
		return err
	}
	return c.refund(ctx, k, tokens)
}

func (c *Client) refund(ctx context.Context, k quota.Key, tokens int64) error {
	if r, asks := c.limits(k); !asks {
		if r == nil {
			return nil
		}
		agg := c.member.agg.Load()
		d := agg.Refund(c.clock.now, k.LimitName, k.Key, tokens)
		c.member.poke()
		_, err := c.resultOf(r, k, &d)
		return err
	}
	return c.ask(ctx, func(ctx context.Context, q quoratev1.QuotaServiceClient) error {
		_, err := q.Refund(ctx, &quoratev1.RefundRequest{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key, Cost: &tokens})
		return err
	})
}

// Report books what has been used already, 1 token or more, whatever the level is:
// it can fall below zero, down to a bound of the limit. It returns how many tokens
// were booked; 0 while the limit is not known.
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
		res, err := q.Report(ctx, &quoratev1.ReportRequest{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key, Used: used})
		booked = res.GetBooked()
		return err
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
