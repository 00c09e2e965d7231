package client

import (
	"context"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// Buckets is one limit, for hot paths that ask for many of its keys: it remembers where
// they are, so that a decision out of what is held looks up the key and nothing else,
// without a lock, a clock or an allocation. Make it once and keep it; any number of
// goroutines may use it. For one key [Bucket] is faster.
type Buckets struct {
	near  aggregator.LimitHandle
	c     *Client
	name  quota.LimitName
	fault error
}

// Buckets returns a handle of a limit. Names that cannot be make all its calls fail.
func (c *Client) Buckets(namespace, limit string) *Buckets {
	k, err := checked(namespace, limit, quota.WholeKey, 1)
	return &Buckets{c: c, name: k.LimitName, fault: err}
}

// Allow is AllowN of one token.
func (b *Buckets) Allow(key string) bool { return b.AllowN(key, 1) }

// AllowN decides whether n tokens may be taken now for a key, and takes them if so. It
// may wait, and fails open, as [Bucket.AllowN] does; a key that cannot be is admitted.
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

// Check decides as Client.Allow does.
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

// find remembers where the limit is.
func (b *Buckets) find() {
	agg, ok := b.c.decides()
	if !ok {
		b.near.Forget()
		return
	}
	agg.FindLimit(&b.near, b.name)
}

// decides returns what decides in this process; false while, or because, nodes do.
func (c *Client) decides() (*aggregator.Aggregator, bool) {
	if c.member == nil || c.closed.Load() {
		return nil, false
	}
	agg := c.member.agg.Load()
	return agg, agg != nil
}
