package client

import (
	"context"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

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
		b.c.stats.granted.of(uint64(key[len(key)-1])).Add(1)
		return true
	}
	res, err := b.Check(context.Background(), key, n)
	if err != nil {
		return b.c.fallback.passes(quota.Key{LimitName: b.name, Key: key}, n, b.fault != nil || checkKey(&key, n) != nil, err)
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
