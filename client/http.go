package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// maxPath bounds the path of an HTTP request in bytes.
const maxPath = 8 << 10

// AllowHTTP decides a request by its method and path. See [Limiter].
func (c *Client) AllowHTTP(ctx context.Context, check HTTPCheck) (Result, error) {
	if check.Namespace == "" {
		check.Namespace = quota.HTTPNamespace
	}
	if check.Cost == 0 {
		check.Cost = 1
	}
	err := check.validate()
	var res Result
	if err == nil {
		res, err = c.decideHTTP(ctx, &check)
	}
	if err == nil && res.Why == WhyUseAcquire {
		err = c.inFlight(ctx, quota.LimitName{Namespace: res.Limit.Namespace, Limit: res.Limit.Name})
	}
	if err != nil {
		c.stats.errors.Add(1)
		return Result{}, err
	}
	c.stats.count(&res)
	return res, nil
}

func (h *HTTPCheck) validate() error {
	if err := quota.CheckName("namespace", h.Namespace); err != nil {
		return invalid("namespace", err.Error())
	}
	switch {
	case h.Method == "" || len(h.Method) > quota.MaxNameLen:
		return invalid("method", fmt.Sprintf("method: is %d bytes; must be an HTTP method such as GET", len(h.Method)))
	case !strings.HasPrefix(h.Path, "/"):
		return invalid("path", fmt.Sprintf("path: is %.64q; must begin with /", h.Path))
	case len(h.Path) > maxPath:
		return invalid("path", fmt.Sprintf("path: is %d bytes; at most %d", len(h.Path), maxPath))
	}
	return checkKey(&h.Key, h.Cost)
}

func (c *Client) decideHTTP(ctx context.Context, check *HTTPCheck) (Result, error) {
	if err := c.usable(ctx); err != nil {
		return Result{}, err
	}
	m := c.member
	if m == nil {
		return c.httpRemote(ctx, check)
	}
	r := m.known.Load()
	if r == nil {
		return c.fallback.decide(check.own(), check.Cost), nil
	}
	var room [8]*quota.Limit
	matching, any := r.limits.HTTP(room[:0], check.Namespace, check.Method, check.Path)
	if len(matching) == 0 {
		if !any {
			c.noRules(r, check.Namespace)
		}
		return Result{Allowed: true, Why: WhyNoLimit, Mode: ModeGranted}, nil
	}
	p := calls.Get().(*pooled)
	defer p.free()
	p.begin()
	asks := needsNode(false)
	for _, l := range matching {
		p.add(quota.Key{LimitName: l.LimitName, Key: check.Key}, check.Cost)
		asks = asks || needsNode(r.remote[l.LimitName])
	}
	if !asks {
		_, asks = m.decide(ctx, m.agg.Load(), p)
	}
	if asks {
		c.stats.asked.Add(uint64(len(p.reqs)))
		res, err := c.httpRemote(ctx, check)
		if err == nil || !errors.Is(err, ErrUnavailable) {
			return res, err
		}
		m.alone(m.agg.Load(), p)
	}
	return r.tightest(p.out), nil
}

// tightest combines the decisions of all matching limits: the one that refused, or the one with the
// least remaining.
func (r *rules) tightest(out []quota.Decision) Result {
	var all Result
	var policies []Policy
	for i := range out {
		if out[i].Limit == nil {
			break // it was not decided any more
		}
		one := r.result(&out[i])
		policies = append(policies, one.Policies...)
		wait, near, shadow := max(all.Wait, one.Wait), all.Near || one.Near, all.Shadow || one.Shadow
		if i == 0 || !one.Allowed || one.Remaining < all.Remaining {
			all = one
		}
		all.Near, all.Shadow = near, shadow
		if all.Wait = wait; !all.Allowed {
			all.Wait = 0
		}
	}
	all.Policies = policies
	return all
}

// own returns the key under which the client's own limits count a request.
func (h *HTTPCheck) own() quota.Key {
	return quota.Key{LimitName: quota.LimitName{Namespace: h.Namespace}, Key: h.Key}
}

// httpRemote asks a node.
func (c *Client) httpRemote(ctx context.Context, check *HTTPCheck) (Result, error) {
	req := &quoratev1.AllowRequest{Namespace: check.Namespace, Method: check.Method, Path: check.Path, Key: check.Key, Cost: &check.Cost}
	var res *quoratev1.AllowResponse
	err := c.ask(ctx, func(ctx context.Context, q quoratev1.QuotaServiceClient) (err error) {
		res, err = q.Allow(ctx, req)
		return err
	})
	if err != nil {
		if k := check.own(); c.member == nil && c.fallback.has(k.LimitName) && errors.Is(err, ErrUnavailable) {
			return c.fallback.decide(k, check.Cost), nil
		}
		return Result{}, err
	}
	return fromProto(res), nil
}
