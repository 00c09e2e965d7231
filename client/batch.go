package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Check is one check of a call with several.
type Check struct {
	Namespace, Limit, Key string
	Cost                  int64 // tokens; 0 means 1
}

func (k *Check) key() (quota.Key, int64, error) {
	cost := k.Cost
	if cost == 0 {
		cost = 1
	}
	key, err := checked(k.Namespace, k.Limit, k.Key, cost)
	return key, cost, err
}

// AllowBatch decides up to MaxBatch checks, each on its own. An invalid check has its error in
// Result.Err and does not affect the others. Checks that a node has to decide are sent to one in a
// single round trip, after the others. If no node answers, they are decided without one, as by
// Allow. The returned error is that of this round trip, and then some of them are not decided.
func (c *Client) AllowBatch(ctx context.Context, checks []Check) ([]Result, error) {
	if err := c.usable(ctx); err != nil {
		return nil, err
	}
	if len(checks) == 0 || len(checks) > MaxBatch {
		return nil, invalid("checks", fmt.Sprintf("checks: %d; must be 1 to %d in one call", len(checks), MaxBatch))
	}
	out := make([]Result, len(checks))
	var asked []int
	for i := range checks {
		k, cost, err := checks[i].key()
		if err == nil {
			var asks needsNode
			if out[i], asks, err = c.local(ctx, k, cost); asks {
				asked = append(asked, i)
				continue
			}
		}
		if err != nil {
			out[i] = Result{Err: err}
			c.stats.errors.Add(1)
			continue
		}
		c.stats.count(&out[i])
	}
	if len(asked) == 0 {
		return out, nil
	}
	if c.member != nil {
		c.stats.asked.Add(uint64(len(asked)))
	}
	err := c.batchRemote(ctx, checks, asked, out)
	if errors.Is(err, ErrUnavailable) {
		asked = c.withoutNode(ctx, checks, asked, out)
	}
	if err == nil || len(asked) == 0 {
		return out, nil
	}
	c.stats.errors.Add(uint64(len(asked)))
	return out, err
}

// withoutNode decides checks while no node answers, and returns those that it cannot decide.
func (c *Client) withoutNode(ctx context.Context, checks []Check, asked []int, out []Result) (rest []int) {
	p := calls.Get().(*pooled)
	defer p.free()
	for _, n := range asked {
		k, cost, _ := checks[n].key() // checked before
		switch {
		case c.member != nil:
			p.begin()
			p.add(k, cost)
			c.member.alone(c.member.agg.Load(), p)
			var err error
			if out[n], err = c.resultOf(c.member.known.Load(), k, &p.out[0]); err == nil && out[n].Why == WhyUseAcquire {
				err = c.inFlight(ctx, k.LimitName)
			}
			if err != nil {
				out[n] = Result{Err: err}
				c.stats.errors.Add(1)
				continue
			}
		case c.fallback.has(k.LimitName):
			out[n] = c.fallback.decide(k, cost)
		default:
			rest = append(rest, n)
			continue
		}
		c.stats.count(&out[n])
	}
	return rest
}

// local decides a check in this process if possible.
func (c *Client) local(ctx context.Context, k quota.Key, cost int64) (Result, needsNode, error) {
	if c.member == nil {
		return Result{}, true, nil
	}
	r := c.member.known.Load()
	if r == nil {
		return c.fallback.decide(k, cost), false, nil
	}
	d, asks := c.member.one(ctx, r, k, cost, nil)
	if asks {
		return Result{}, true, nil
	}
	res, err := c.resultOf(r, k, &d)
	return res, false, err
}

// batchRemote asks a node for some of the checks.
func (c *Client) batchRemote(ctx context.Context, checks []Check, asked []int, out []Result) error {
	req := &quoratev1.AllowBatchRequest{Checks: make([]*quoratev1.AllowRequest, len(asked))}
	for i, n := range asked {
		k := &checks[n]
		req.Checks[i] = &quoratev1.AllowRequest{Namespace: k.Namespace, Limit: k.Limit, Key: k.Key}
		if k.Cost != 0 {
			req.Checks[i].Cost = &k.Cost
		}
	}
	var res *quoratev1.AllowBatchResponse
	err := c.ask(ctx, func(ctx context.Context, q quoratev1.QuotaServiceClient) (err error) {
		res, err = q.AllowBatch(ctx, req)
		return err
	})
	if err == nil && len(res.Results) != len(asked) {
		err = &Error{Kind: ErrUnavailable, Detail: fmt.Sprintf("%d checks got %d results", len(asked), len(res.Results))}
	}
	if err != nil {
		return err
	}
	for i, r := range res.Results {
		at := &out[asked[i]]
		if r.Response == nil {
			*at = Result{Err: &Error{Kind: ErrInvalid, Detail: r.Error}}
			c.stats.errors.Add(1)
			continue
		}
		*at = fromProto(r.Response)
		if at.Why == WhyUseAcquire {
			*at = Result{Err: c.inFlight(ctx, quota.LimitName{Namespace: checks[asked[i]].Namespace, Limit: checks[asked[i]].Limit})}
			c.stats.errors.Add(1)
			continue
		}
		if c.member != nil {
			k, cost, _ := checks[asked[i]].key() // checked before
			if d, ok := c.member.arrived(k, cost, at); ok {
				*at = c.member.known.Load().result(&d)
			}
			c.member.remember(k, cost, at)
		}
		c.stats.count(at)
	}
	return nil
}

// All is the answer to checks that pass or fail together.
type All struct {
	Allowed bool
	// Results has one answer per check, in order. If one refuses, none is charged: those before it
	// would have passed, those after it are zero.
	Results []Result
	// Wait is the longest wait of the results. RetryAfter is that of the refusal; [Never] if it can
	// never pass.
	Wait, RetryAfter time.Duration
}

// AllowAll decides up to MaxAll checks together: all pass and are charged, or none.
func (c *Client) AllowAll(ctx context.Context, checks []Check) (All, error) {
	if len(checks) == 0 || len(checks) > MaxAll {
		return All{}, invalid("checks", fmt.Sprintf("checks: %d; must be 1 to %d in one call", len(checks), MaxAll))
	}
	p := calls.Get().(*pooled)
	defer p.free()
	p.begin()
	for i := range checks {
		k, cost, err := checks[i].key()
		if err != nil {
			return All{}, err
		}
		p.add(k, cost)
	}
	all, err := c.all(ctx, p)
	if err != nil {
		c.stats.errors.Add(1)
		return All{}, err
	}
	for i := range all.Results {
		if all.Results[i].Why != "" {
			c.stats.count(&all.Results[i])
		}
	}
	return all, nil
}

func (c *Client) all(ctx context.Context, p *pooled) (All, error) {
	if err := c.usable(ctx); err != nil {
		return All{}, err
	}
	m := c.member
	if m == nil {
		return c.allRemote(ctx, p.reqs)
	}
	r := m.known.Load()
	if r == nil {
		return c.allFallback(p.reqs), nil
	}
	asks, ok := needsNode(false), false
	for i := range p.reqs {
		asks = asks || needsNode(r.needsNode(p.reqs[i].Key.LimitName))
	}
	if !asks {
		ok, asks = m.decide(ctx, m.agg.Load(), p)
	}
	if asks {
		c.stats.asked.Add(uint64(len(p.reqs)))
		all, err := c.allRemote(ctx, p.reqs)
		for i := range min(len(all.Results), len(p.reqs)) {
			m.remember(p.reqs[i].Key, p.reqs[i].Cost, &all.Results[i])
		}
		if err == nil || !errors.Is(err, ErrUnavailable) {
			return all, err
		}
		ok = m.alone(m.agg.Load(), p)
	}
	return c.combine(r, p, ok)
}

// combine combines the decisions.
func (c *Client) combine(r *rules, p *pooled, ok bool) (All, error) {
	all := All{Allowed: ok, Results: make([]Result, len(p.out))}
	for i := range p.out {
		d := &p.out[i]
		if d.Limit == nil && d.Why == quota.WhyUnknown {
			break // behind the one that refused
		}
		res, err := c.resultOf(r, p.reqs[i].Key, d)
		if err != nil {
			return All{}, err
		}
		all.add(i, res)
	}
	return all, nil
}

func (a *All) add(i int, res Result) {
	a.Results[i] = res
	if a.Wait = max(a.Wait, res.Wait); !a.Allowed {
		a.Wait, a.RetryAfter = 0, max(a.RetryAfter, res.RetryAfter)
	}
}

// allFallback decides by the client's own limits, and takes back what a refused call has charged.
func (c *Client) allFallback(reqs []quota.Request) All {
	all := All{Allowed: true, Results: make([]Result, len(reqs))}
	for i := range reqs {
		res := c.fallback.decide(reqs[i].Key, reqs[i].Cost)
		all.Allowed = res.Allowed
		all.add(i, res)
		if !res.Allowed {
			for j := range i {
				c.fallback.giveBack(reqs[j].Key, reqs[j].Cost)
			}
			break
		}
	}
	return all
}

// allRemote asks a node.
func (c *Client) allRemote(ctx context.Context, reqs []quota.Request) (All, error) {
	req := &quoratev1.AllowAllRequest{}
	for i := range reqs {
		req.Checks = append(req.Checks, request(reqs[i].Key, reqs[i].Cost))
	}
	var res *quoratev1.AllowAllResponse
	err := c.ask(ctx, func(ctx context.Context, q quoratev1.QuotaServiceClient) (err error) {
		res, err = q.AllowAll(ctx, req)
		return err
	})
	if err != nil {
		own := func(r quota.Request) bool { return c.fallback.has(r.Key.LimitName) }
		if c.member == nil && errors.Is(err, ErrUnavailable) && !slices.ContainsFunc(reqs, func(r quota.Request) bool { return !own(r) }) {
			return c.allFallback(reqs), nil
		}
		return All{}, err
	}
	return fromAll(res.Allowed, res.Results), nil
}

// fromAll converts a node's answer to several checks.
func fromAll(allowed bool, results []*quoratev1.AllowResponse) All {
	all := All{Allowed: allowed, Results: make([]Result, len(results))}
	for i, r := range results {
		if r.GetWhy() != quoratev1.Why_WHY_UNSPECIFIED {
			all.add(i, fromProto(r))
		}
	}
	return all
}
