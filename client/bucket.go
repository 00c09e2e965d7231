package client

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// Bucket is a handle of one key of one limit, for hot paths. It caches the key's entry, so that a
// decision from held tokens is one atomic subtraction, without map, lock, clock or allocation.
// Create it once and keep it. It is safe for concurrent use.
type Bucket struct {
	near    aggregator.Handle
	granted *counter
	c       *Client
	key     quota.Key
	fault   error
}

// Bucket returns a handle of a key. If a name or the key is invalid, all calls of the handle fail.
func (c *Client) Bucket(namespace, limit, key string) *Bucket {
	b := &Bucket{c: c, granted: c.stats.granted.of(rand.Uint64())}
	b.key, b.fault = checked(namespace, limit, key, 1)
	return b
}

// Allow is AllowN(1).
func (b *Bucket) Allow() bool { return b.AllowN(1) }

// AllowN decides whether n tokens may be taken now, and takes them if so. It may wait for a grant
// if that would decide, for up to [WithGrantWait].
//
// Without a decision it fails open, unless [WithFailClosed] is set: it uses the client's own
// limits, if one applies, and otherwise returns true. This is the case before the first answer of a
// node, for unknown limits, for invalid names, and after Close. Use Check to distinguish these. A
// limit on what is in flight admits nothing here: see Acquire.
func (b *Bucket) AllowN(n int64) bool {
	if b.near.Take(n) {
		b.granted.Add(1)
		return true
	}
	if b.near.Refuses(b.c.clock.now, n) {
		b.granted.Add(1)
		b.c.stats.refused.Add(1)
		return false
	}
	res, err := b.Check(context.Background(), n)
	if err != nil {
		return b.c.fallback.passes(b.key, n, b.fault != nil, err)
	}
	return res.Allowed && res.Wait == 0
}

// Check decides like Client.Allow.
func (b *Bucket) Check(ctx context.Context, n int64) (Result, error) { return b.check(ctx, n, nil) }

func (b *Bucket) check(ctx context.Context, n int64, t *taken) (Result, error) {
	if b.fault == nil && n < 0 {
		_, err := checked(b.key.Namespace, b.key.LimitName.Limit, b.key.Key, n)
		return Result{}, err
	}
	if b.fault != nil {
		b.c.stats.errors.Add(1)
		return Result{}, b.fault
	}
	res, err := b.c.allow(ctx, b.key, n, t)
	b.find()
	return res, err
}

// find looks up the key's entry.
func (b *Bucket) find() {
	agg, ok := b.c.decides()
	if !ok {
		b.near.Forget()
		return
	}
	agg.Find(&b.near, b.key.LimitName, b.key.Key)
}

// Refund gives back n tokens that were taken and not used. See Client.Refund.
func (b *Bucket) Refund(ctx context.Context, n int64) error {
	if err := errors.Join(b.fault, b.c.bookable(n)); err != nil {
		return err
	}
	return b.c.refund(ctx, b.key, n, nil)
}

// Report books n tokens that have been used already. See Client.Report.
func (b *Bucket) Report(ctx context.Context, n int64) (booked int64, err error) {
	if err := errors.Join(b.fault, b.c.bookable(n)); err != nil {
		return 0, err
	}
	return b.c.report(ctx, b.key, n)
}
