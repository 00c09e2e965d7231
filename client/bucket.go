package client

import (
	"cmp"
	"context"
	"errors"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// Bucket is a handle of one key of one limit, for hot paths. It caches the key's entry, so that a
// decision from held tokens is one atomic subtraction, without map, lock, clock or allocation.
// Create it once and keep it. It is safe for concurrent use.
type Bucket struct {
	near  aggregator.Handle
	c     *Client
	key   quota.Key
	fault error
}

// Bucket returns a handle of a key. If a name or the key is invalid, all calls of the handle fail.
func (c *Client) Bucket(namespace, limit, key string) *Bucket {
	b := &Bucket{c: c}
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
// concurrency limit admits nothing here: see Acquire.
func (b *Bucket) AllowN(n int64) bool {
	if b.near.Take(n) {
		b.c.stats.granted.add()
		return true
	}
	// After a suspend, a refusal may be repeated once more.
	if b.near.Refuses(b.c.clock.noticed, n) {
		b.c.stats.repeated.add()
		return false
	}
	res, err := b.Check(context.Background(), n)
	if err != nil {
		return b.c.fallback.passes(b.key, n, err)
	}
	return res.Allowed && res.Wait == 0
}

// Check decides like Client.Allow.
func (b *Bucket) Check(ctx context.Context, n int64) (Result, error) { return b.check(ctx, n, nil) }

func (b *Bucket) check(ctx context.Context, n int64, t *chargeTime) (Result, error) {
	fault := b.fault
	if fault == nil {
		fault = checkCost(n)
	}
	if fault != nil {
		b.c.stats.errors.Add(1)
		return Result{}, fault
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

// Buckets is a handle of one limit, for hot paths that use many of its keys. It caches the limit,
// so that a decision from held tokens costs one lookup of the key, without lock, clock or
// allocation. Create it once and keep it. It is safe for concurrent use. For a single key, [Bucket]
// is faster.
type Buckets struct {
	near  aggregator.LimitHandle
	c     *Client
	name  quota.LimitName
	fault error
}

// Buckets returns a handle of a limit. If a name is invalid, all calls of the handle fail.
func (c *Client) Buckets(namespace, limit string) *Buckets {
	k, err := checked(namespace, limit, quota.WholeKey, 1)
	return &Buckets{c: c, name: k.LimitName, fault: err}
}

// Allow is AllowN with one token.
func (b *Buckets) Allow(key string) bool { return b.AllowN(key, 1) }

// AllowN decides whether n tokens may be taken now for a key, and takes them if so. It may wait,
// and fails open, as [Bucket.AllowN] does; an invalid key is admitted.
func (b *Buckets) AllowN(key string, n int64) bool {
	if b.near.Take(key, n) {
		b.c.stats.granted.add()
		return true
	}
	res, err := b.Check(context.Background(), key, n)
	if err != nil {
		return b.c.fallback.passes(quota.Key{LimitName: b.name, Key: cmp.Or(key, quota.WholeKey)}, n, err)
	}
	return res.Allowed && res.Wait == 0
}

// Check decides like Client.Allow.
func (b *Buckets) Check(ctx context.Context, key string, n int64) (Result, error) {
	fault := b.fault
	if fault == nil {
		fault = checkKey(&key, n)
	}
	if fault != nil {
		b.c.stats.errors.Add(1)
		return Result{}, fault
	}
	res, err := b.c.allow(ctx, quota.Key{LimitName: b.name, Key: key}, n, nil)
	b.find()
	return res, err
}

// find looks up the limit.
func (b *Buckets) find() {
	agg, ok := b.c.decides()
	if !ok {
		b.near.Forget()
		return
	}
	agg.FindLimit(&b.near, b.name)
}

// decides returns the aggregator of this process; false if nodes decide, or as long as there is
// none.
func (c *Client) decides() (*aggregator.Aggregator, bool) {
	if c.member == nil || c.closed.Load() {
		return nil, false
	}
	agg := c.member.agg.Load()
	return agg, agg != nil
}
