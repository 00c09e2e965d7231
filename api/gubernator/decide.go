package gubernator

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	pb "github.com/quorate/quorate/api/gen/pb/gubernator"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// decide decides one request. The error becomes the error of its answer.
func (c *call) decide(r *pb.RateLimitReq) (*pb.RateLimitResp, error) {
	if err := c.ctx.Err(); err != nil {
		return nil, fmt.Errorf("not decided: %w", err)
	}
	a, err := c.read(r)
	switch {
	case err != nil:
		return nil, err
	case r.Behavior&reset != 0:
		return c.reset(&a)
	case !a.ours && !a.forgets && !c.node.AdmitInline(a.key.LimitName, c.opts.Owner(c.ctx)):
		d := quota.Decision{Why: quota.WhyNoLimit}
		c.opts.Seen(&d)
		return nil, decided(&a, &d)
	case a.hits < 0:
		return c.refund(&a)
	case a.forgets:
		return c.unremembered(&a), nil
	}
	d, err := c.ask(&a, a.hits, false)
	c.opts.Seen(d)
	if err != nil {
		return nil, err
	}
	res := c.response(&a, d)
	if d.Why == quota.WhyOverBurst { // decided without a look at what is left
		if d, err = c.ask(&a, 0, false); err != nil {
			return nil, err
		}
		res.Remaining, res.ResetTime = d.Remaining, c.resetTime(&a, d)
	}
	if r.Behavior&drain != 0 && a.hits > 0 && res.Status == pb.Status_OVER_LIMIT && d.Remaining > 0 {
		// The request stays refused: this takes the rest, and is not its decision.
		if d, err = c.ask(&a, d.Remaining, false); err != nil {
			return nil, err
		}
		// What other callers took in between is not drained.
		res.Remaining, res.ResetTime = d.Remaining, c.resetTime(&a, d)
	}
	return res, nil
}

// ask decides hits, or gives them back. The decision is valid until the next call.
func (c *call) ask(a *asked, hits int64, refund bool) (*quota.Decision, error) {
	c.req[0] = quota.Request{Key: a.key, Cost: hits}
	c.at = c.opts.Now()
	c.one[0] = quota.Call{Requests: c.req[:], Out: c.dec[:], Refund: refund}
	c.batch(c.one[:])
	d := &c.dec[0]
	return d, decided(a, d)
}

// decided returns an error if a decision decided nothing.
func decided(a *asked, d *quota.Decision) error {
	switch {
	case d.Why == quota.WhyUnknown:
		return errors.New("the node could not decide")
	case d.Limit == nil && a.ours:
		return fmt.Errorf("limit %v was deleted", a.key.LimitName)
	case d.Limit == nil:
		return errors.New("the node has no room for another limit sent by callers, or by this caller; give some of them the same numbers, or define them in a limit file")
	}
	return nil
}

// unremembered answers for a limit that lasts no time or lets nothing pass.
func (c *call) unremembered(a *asked) *pb.RateLimitResp {
	res := &pb.RateLimitResp{Limit: a.limit, Remaining: a.capacity, ResetTime: c.opts.Now().UnixMilli()}
	if a.capacity == 0 || a.hits > a.capacity {
		res.Status = pb.Status_OVER_LIMIT
		res.Metadata = map[string]string{"why": quota.WhyOverBurst.String()}
		return res
	}
	res.Remaining -= a.hits
	return res
}

// response converts a decision to an answer.
func (c *call) response(a *asked, d *quota.Decision) *pb.RateLimitResp {
	res := &pb.RateLimitResp{Limit: c.limitOf(a, d), Remaining: d.Remaining, ResetTime: c.resetTime(a, d)}
	if d.Allowed {
		return res
	}
	res.Status = pb.Status_OVER_LIMIT
	res.Metadata = map[string]string{"why": d.Why.String()}
	if a.ours {
		base, _ := d.Limit.Base()
		res.Metadata["limit"] = base.String()
	}
	if d.RetryAfter != math.MaxInt64 {
		res.Metadata["retry_after_ms"] = strconv.FormatInt(millisUp(d.RetryAfter), 10)
	}
	return res
}

// limitOf returns the limit of an answer: for a limit of the namespace, its burst.
func (c *call) limitOf(a *asked, d *quota.Decision) int64 {
	if !a.ours {
		return a.limit
	}
	if i := d.Tier - 2; i >= 0 && i < len(d.Limit.More) {
		return d.Limit.More[i].Burst
	}
	return d.Limit.Burst
}

// resetTime returns when the window ends or the bucket is full, in Unix milliseconds. It counts
// from just before the decision: counted from after it, the end of a month would be a millisecond
// late.
//
// For a LEAKY_BUCKET that the request carries it returns when limit would remain, computed from
// whole hits as gubernator does. The result is in the past if burst lets more remain.
func (c *call) resetTime(a *asked, d *quota.Decision) int64 {
	now := time.Duration(c.at.UnixNano())
	if a.leak > 0 {
		return millisUp(now) + int64(math.Ceil(float64(a.limit-d.Remaining)*a.leak))
	}
	if d.ResetAfter > math.MaxInt64-now {
		return math.MaxInt64
	}
	return millisUp(now + d.ResetAfter)
}

// refund answers a request with negative hits.
func (c *call) refund(a *asked) (*pb.RateLimitResp, error) {
	if err := c.opts.May(c.ctx, rbac.Report, Namespace); err != nil {
		return nil, fmt.Errorf("hits: %d: %w", a.hits, err)
	}
	if a.forgets {
		return &pb.RateLimitResp{Limit: a.limit, Remaining: a.capacity, ResetTime: c.opts.Now().UnixMilli()}, nil
	}
	d, err := c.ask(a, -a.hits, true)
	if err != nil {
		return nil, err
	}
	return &pb.RateLimitResp{Limit: c.limitOf(a, d), Remaining: d.Remaining, ResetTime: c.resetTime(a, d)}, nil
}

// reset answers a request with RESET_REMAINING.
func (c *call) reset(a *asked) (*pb.RateLimitResp, error) {
	if err := c.opts.May(c.ctx, rbac.KeysReset, Namespace); err != nil {
		return nil, fmt.Errorf("behavior: RESET_REMAINING: %w", err)
	}
	if a.ours {
		l, ok := c.node.Limits().Find(a.key.LimitName)
		if !ok {
			return nil, decided(a, &quota.Decision{Why: quota.WhyNoLimit})
		}
		a.limit, a.capacity = l.Burst, l.Burst
	}
	if !a.forgets {
		if err := c.node.ResetKey(c.ctx, a.key); err != nil {
			return nil, fmt.Errorf("behavior: RESET_REMAINING: %w", err)
		}
	}
	return &pb.RateLimitResp{Limit: a.limit, Remaining: a.capacity}, nil
}

// millisUp returns whole milliseconds, rounded up: after a rounded down time, callers would be too
// early.
func millisUp(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return ms
}
