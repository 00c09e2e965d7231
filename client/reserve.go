package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Reservation is a set of reserved tokens or acquired places, or the refusal of one.
type Reservation struct {
	Result
	// Expires is the time from the reservation until a node gives it back unless it is settled; 0
	// for one of this process, which then counts as used.
	Expires time.Duration

	b      *Bucket // for a reservation of this process
	c      *Client
	n      int64
	taken  *chargeTime // by this process
	handle string      // for a reservation of a node
	places bool        // released instead of settled
	over   atomic.Bool

	keeping sync.Mutex
	next    *time.Timer // of KeepAlive; nil while it does not renew
}

// OK reports whether the tokens were reserved.
func (r *Reservation) OK() bool { return r.Allowed }

// Delay returns how long to wait before proceeding; [Never] if nothing was reserved.
func (r *Reservation) Delay() time.Duration {
	if !r.Allowed {
		return Never
	}
	return r.Wait
}

// Cancel gives everything back. Only the first Cancel or Settle has an effect.
func (r *Reservation) Cancel(ctx context.Context) error { return r.Settle(ctx, 0) }

// Settle reports how many tokens were used. The rest is given back, except to windows that have
// ended; use beyond the reservation is booked as by Report. A reservation of several checks settles
// each of them with used. Only the first Cancel or Settle has an effect. Acquired places are
// released, whatever was used.
func (r *Reservation) Settle(ctx context.Context, used int64) error {
	if used < 0 || used > quota.MaxTokens {
		return invalid("used", fmt.Sprintf("used: %d; must be 0 to %d", used, quota.MaxTokens))
	}
	if !r.Allowed || r.over.Swap(true) {
		return nil
	}
	r.stopRenewing()
	if r.b != nil {
		return r.settleLocal(ctx, used)
	}
	return r.c.ask(ctx, func(ctx context.Context, q quoratev1.QuotaServiceClient) (err error) {
		if r.places {
			_, err = q.Release(ctx, &quoratev1.ReleaseRequest{Handle: r.handle})
			return err
		}
		_, err = q.Settle(ctx, &quoratev1.SettleRequest{Handle: r.handle, Used: &used})
		return err
	})
}

func (r *Reservation) settleLocal(ctx context.Context, used int64) (err error) {
	switch {
	case r.Shadow || r.Mode == ModeFallback || r.Why == WhyUnlimited || r.Why == WhyNotEnforced || r.Why == WhyOpen || r.Why == WhyTooManyKeys:
		return nil // nothing was taken
	case used < r.n:
		if err := r.c.bookable(r.n - used); err != nil {
			return err
		}
		return r.c.refund(ctx, r.b.key, r.n-used, r.taken)
	case used > r.n:
		_, err = r.b.Report(ctx, used-r.n)
	}
	return err
}

// Renew extends a reservation of a node to ttl from now, 1 ms to 24 h; 0 is the original duration.
// One of this process needs no renewal. It is an error if the reservation has ended.
func (r *Reservation) Renew(ctx context.Context, ttl time.Duration) error {
	switch {
	case !r.Allowed || r.over.Load():
		return invalid("handle", "handle: nothing is reserved; renew before Cancel and Settle")
	case r.b != nil:
		return nil
	}
	if ttl == 0 {
		ttl = r.Expires
	}
	req := &quoratev1.RenewRequest{Handle: r.handle, Ttl: durationpb.New(ttl)}
	return r.c.ask(ctx, func(ctx context.Context, q quoratev1.QuotaServiceClient) error {
		_, err := q.Renew(ctx, req)
		return err
	})
}

// KeepAlive renews a reservation of a node, three times within Expires, until Cancel, Settle or the end
// of ctx; then it may be called again. So work may take longer than the lease, and the places of a
// dead process are free one lease later. KeepAlive returns at once, and uses no goroutine between
// renewals.
func (r *Reservation) KeepAlive(ctx context.Context) {
	if !r.Allowed || r.b != nil || r.Expires <= 0 {
		return
	}
	r.keeping.Lock()
	defer r.keeping.Unlock()
	if r.next != nil || r.over.Load() {
		return
	}
	every := max(r.Expires/3, time.Millisecond)
	var next *time.Timer
	next = time.AfterFunc(every, func() {
		err := ctx.Err()
		if err == nil {
			err = r.Renew(ctx, 0)
		}
		r.keeping.Lock()
		defer r.keeping.Unlock()
		switch {
		case r.next != next: // Cancel or Settle
		case ctx.Err() == nil && (err == nil || errors.Is(err, ErrUnavailable)):
			next.Reset(every)
		default:
			r.next = nil
		}
	})
	r.next = next
}

// stopRenewing ends KeepAlive.
func (r *Reservation) stopRenewing() {
	r.keeping.Lock()
	defer r.keeping.Unlock()
	if r.next != nil {
		r.next.Stop()
		r.next = nil
	}
}

// ReserveN reserves n tokens. A limit with max_debt may reserve future tokens: then Delay returns
// how long to wait. A reservation of this process ends only by Cancel and Settle; otherwise it
// counts as used. Use Client.Reserve for reservations that are given back when the process dies.
func (b *Bucket) ReserveN(ctx context.Context, n int64) (*Reservation, error) {
	if b.c.member == nil && b.fault == nil {
		return b.c.reserve(ctx, &quoratev1.ReserveRequest{Checks: []*quoratev1.AllowRequest{request(b.key, n)}}, n)
	}
	res, t, err := b.spend(ctx, n)
	if err != nil {
		return nil, err
	}
	return &Reservation{Result: res, b: b, c: b.c, n: n, taken: t}, nil
}

// Reserve reserves the tokens of up to MaxAll checks at a node, all or none, until they are settled
// or for ttl, 1 ms to 24 h; 0 is the shortest lease of the limits. Reservations that are not
// settled in time are given back. The Result is that of the check that refused, or of the first.
// Without a node it returns an error.
func (c *Client) Reserve(ctx context.Context, ttl time.Duration, checks ...Check) (*Reservation, error) {
	if len(checks) == 0 || len(checks) > MaxAll {
		return nil, invalid("checks", fmt.Sprintf("checks: %d; must be 1 to %d in one call", len(checks), MaxAll))
	}
	req := &quoratev1.ReserveRequest{}
	var most int64
	for i := range checks {
		k, cost, err := checks[i].key()
		if err != nil {
			return nil, err
		}
		most = max(most, cost)
		req.Checks = append(req.Checks, request(k, cost))
	}
	if ttl != 0 {
		req.Ttl = durationpb.New(ttl)
	}
	return c.reserve(ctx, req, most)
}

func (c *Client) reserve(ctx context.Context, req *quoratev1.ReserveRequest, n int64) (*Reservation, error) {
	var res *quoratev1.ReserveResponse
	err := c.ask(ctx, func(ctx context.Context, q quoratev1.QuotaServiceClient) (err error) {
		res, err = q.Reserve(ctx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &Reservation{c: c, n: n, handle: res.Handle, Expires: res.GetExpiresIn().AsDuration()}
	all := fromAll(res.Allowed, res.Results)
	for i, one := range all.Results {
		if one.Why == "" {
			break // behind the one that refused
		}
		c.stats.count(&one)
		if i == 0 || !one.Allowed {
			out.Result = one
		}
	}
	out.Allowed, out.Wait, out.RetryAfter = all.Allowed, all.Wait, all.RetryAfter
	return out, nil
}

// Acquire is Bucket.Acquire for a key.
func (c *Client) Acquire(ctx context.Context, namespace, limit, key string, n int64, ttl time.Duration) (*Reservation, error) {
	return c.Bucket(namespace, limit, key).Acquire(ctx, n, ttl)
}

// Acquire takes n places of a concurrency limit, for ttl, 1 ms to 24 h; 0 means the
// limit's lease. Cancel and Settle release them; Renew and KeepAlive extend them. A node manages them,
// so without one it returns an error.
func (b *Bucket) Acquire(ctx context.Context, n int64, ttl time.Duration) (*Reservation, error) {
	if err := errors.Join(b.fault, b.c.bookable(n)); err != nil {
		return nil, err
	}
	req := &quoratev1.AcquireRequest{Namespace: b.key.Namespace, Limit: b.key.LimitName.Limit, Key: b.key.Key, Count: &n}
	if ttl != 0 {
		req.Ttl = durationpb.New(ttl)
	}
	var res *quoratev1.AcquireResponse
	err := b.c.ask(ctx, func(ctx context.Context, q quoratev1.QuotaServiceClient) (err error) {
		res, err = q.Acquire(ctx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &Reservation{Result: fromProto(res.Result), c: b.c, n: n, handle: res.Handle, places: true, Expires: res.GetExpiresIn().AsDuration()}
	b.c.stats.count(&out.Result)
	return out, nil
}
