package client

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Allow decides whether cost tokens of namespace/limit may be taken for key, and takes them if so.
// A cost of 0 charges nothing; the answer is that for a cost of 1.
func (c *Client) Allow(ctx context.Context, namespace, limit, key string, cost int64) (Result, error) {
	k, err := checked(namespace, limit, key, cost)
	if err != nil {
		c.stats.errors.Add(1)
		return Result{}, err
	}
	return c.allow(ctx, k, cost, nil)
}

// allow decides a valid check and counts it.
func (c *Client) allow(ctx context.Context, k quota.Key, cost int64, t *chargeTime) (Result, error) {
	res, err := c.decide(ctx, k, cost, t)
	if err == nil && res.Why == WhyUseAcquire {
		err = c.inFlight(ctx, k.LimitName)
	}
	if err != nil {
		c.stats.errors.Add(1)
		return Result{}, err
	}
	c.stats.count(&res)
	return res, nil
}

// decide decides a valid check: in this process, or at a node if the limit or the state of the key
// requires it. Until the first limits arrive, the fallback decides. A client that does not decide in its
// process asks a node.
func (c *Client) decide(ctx context.Context, k quota.Key, cost int64, t *chargeTime) (Result, error) {
	if err := c.usable(ctx); err != nil {
		return Result{}, err
	}
	m := c.member
	if m == nil {
		return c.allowRemote(ctx, k, cost)
	}
	r := m.known.Load()
	if r == nil {
		return c.fallback.decide(k, cost), nil
	}
	d, asks := m.one(ctx, r, k, cost, t)
	if !asks {
		return c.resultOf(r, k, &d)
	}
	c.stats.asked.Add(1)
	res, err := c.allowRemote(ctx, k, cost)
	if err == nil {
		if d, ok := m.arrived(k, cost, &res); ok {
			return c.resultOf(r, k, &d)
		}
		m.remember(k, cost, &res)
	}
	if err == nil || !errors.Is(err, ErrUnavailable) {
		return res, err
	}
	p := calls.Get().(*pooled)
	defer p.free()
	p.begin()
	p.add(k, cost)
	m.alone(m.agg.Load(), p)
	return c.resultOf(r, k, &p.out[0])
}

// arrived decides a check that a node has refused because it did not hold the tokens, if this client has them by now: the
// node granted them to it while it was asked.
func (m *member) arrived(k quota.Key, cost int64, res *Result) (quota.Decision, bool) {
	if res.Allowed || res.Why != WhyNotHeld {
		return quota.Decision{}, false
	}
	agg := m.agg.Load()
	d, ok := agg.TryHeld(k.LimitName, k.Key, cost)
	m.wakeIfUrgent(agg)
	return d, ok
}

// remember keeps a refusal of a node for as long as the node says, so that it is not asked again before.
func (m *member) remember(k quota.Key, cost int64, res *Result) {
	if !res.Allowed && res.Why == WhyOverLimit {
		m.agg.Load().Refused(m.clock.now, k, cost, res.RetryAfter)
	}
}

// resultOf returns the result of a decision, or an error if the limit is unknown.
func (c *Client) resultOf(r *rules, k quota.Key, d *quota.Decision) (Result, error) {
	if d.Limit == nil && d.Why == quota.WhyNoLimit {
		return Result{}, c.noLimit(r, k.LimitName)
	}
	return r.result(d), nil
}

// allowRemote asks a node. If none answers, the client's own limits decide, if one applies.
func (c *Client) allowRemote(ctx context.Context, k quota.Key, cost int64) (Result, error) {
	var res *quoratev1.AllowResponse
	err := c.ask(ctx, func(ctx context.Context, q quoratev1.QuotaServiceClient) (err error) {
		res, err = q.Allow(ctx, request(k, cost))
		return err
	})
	if err != nil {
		if c.member == nil && c.fallback.has(k.LimitName) && errors.Is(err, ErrUnavailable) {
			return c.fallback.decide(k, cost), nil
		}
		return Result{}, err
	}
	return fromProto(res), nil
}

func request(k quota.Key, cost int64) *quoratev1.AllowRequest {
	return &quoratev1.AllowRequest{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key, Cost: &cost}
}

// checked returns the key of a check, or an error if the check is invalid.
func checked(namespace, limit, key string, cost int64) (quota.Key, error) {
	k := quota.Key{LimitName: quota.LimitName{Namespace: namespace, Limit: limit}, Key: key}
	if err := quota.CheckName("namespace", namespace); err != nil {
		return k, invalid("namespace", err.Error())
	}
	if err := quota.CheckName("limit", limit); err != nil {
		return k, invalid("limit", err.Error())
	}
	return k, checkKey(&k.Key, cost)
}

// checkKey checks a key and a cost. It replaces an empty key by quota.WholeKey.
func checkKey(key *string, cost int64) error {
	switch n := len(*key); {
	case n == 0:
		*key = quota.WholeKey
	case n > quota.MaxKeyLen:
		return invalid("key", fmt.Sprintf("key: is %d bytes; at most %d; use a hash of it", n, quota.MaxKeyLen))
	case !utf8.ValidString(*key):
		return invalid("key", "key: is not UTF-8; encode it, as base64 or hex")
	}
	return checkCost(cost)
}

func checkCost(cost int64) error {
	if cost < 0 || cost > quota.MaxTokens {
		return invalid("cost", fmt.Sprintf("cost: %d; must be 0 (which only asks) to %d", cost, quota.MaxTokens))
	}
	return nil
}

func invalid(field, detail string) error {
	return &Error{Kind: ErrInvalid, Field: field, Detail: detail}
}
