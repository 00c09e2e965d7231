package api

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// Bounds of the duration of a reservation, and of its handle.
const (
	minTTL       = time.Millisecond
	maxTTL       = 24 * time.Hour
	maxHandleLen = 128
)

// ttlOf validates the duration of a reservation; absent is 0.
func ttlOf(d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	ttl := d.AsDuration()
	if ttl < minTTL || ttl > maxTTL {
		return 0, apierr.Invalid("ttl", "%v; must be %v to %v, or absent for the limit's own", ttl, minTTL, maxTTL)
	}
	return ttl, nil
}

// Reserve implements quoratev1.QuotaServiceServer.
func (s *QuotaService) Reserve(ctx context.Context, req *quoratev1.ReserveRequest) (*quoratev1.ReserveResponse, error) {
	ttl, err := ttlOf(req.Ttl)
	if err != nil {
		return nil, err
	}
	p, err := s.planOf(req.Checks)
	if err != nil {
		return nil, err
	}
	if len(p.reqs) == 0 {
		return nil, apierr.Invalid("checks", "no limit applies to them, so there is nothing to reserve")
	}
	for _, r := range p.reqs {
		if r.Cost == 0 {
			return nil, apierr.Invalid("checks", "%v has cost 0; a reservation sets at least 1 aside", r.Key.LimitName)
		}
	}
	made, allowed, err := s.reserved(ctx, p, ttl)
	if err != nil {
		return nil, err
	}
	res := &quoratev1.ReserveResponse{Allowed: allowed, Handle: made.Handle, ExpiresIn: apiproto.Pause(made.Expires)}
	res.Results, res.Wait, res.RetryAfter = s.results(p, allowed)
	return res, nil
}

func (s *QuotaService) reserved(ctx context.Context, p *plan, ttl time.Duration) (quota.Reservation, bool, error) {
	owner := ""
	if v := CallOf(ctx); v != nil && v.Guard != nil {
		owner = v.Caller.Identity
	}
	made, allowed, err := s.node.Reserve(owner, p.reqs, ttl, p.out)
	if err != nil {
		return made, false, apierr.From(err)
	}
	if err := s.noLimitIn(p); err != nil {
		return made, false, err
	}
	if !allowed {
		return quota.Reservation{}, false, nil
	}
	if gone := ctx.Err(); gone != nil { // nobody would settle it
		_ = s.node.Settle(context.WithoutCancel(ctx), made.Handle, 0) // else its lease ends it
		return made, false, apierr.From(gone)
	}
	return made, allowed, nil
}

// Acquire implements quoratev1.QuotaServiceServer.
func (s *QuotaService) Acquire(ctx context.Context, req *quoratev1.AcquireRequest) (*quoratev1.AcquireResponse, error) {
	ttl, err := ttlOf(req.Ttl)
	if err != nil {
		return nil, err
	}
	k, err := s.charged(req, "count", oneOr(req.Count))
	if err != nil {
		return nil, err
	}
	if l, _ := s.node.Limits().Resolve(k.LimitName, k.Key); l != nil && l.Class == quota.Counted && l.Kind != quota.Concurrency {
		return nil, apierr.Invalid("limit", "%v is a %v, not a concurrency limit; check it with Allow, POST /v1/allow", k.LimitName, kindWords(l.Kind))
	}
	p := &plan{ends: []int{1}, reqs: []quota.Request{{Key: k, Cost: oneOr(req.Count), MaxWait: quota.LimitsWait}}, out: make([]quota.Decision, 1)}
	made, allowed, err := s.reserved(ctx, p, ttl)
	if err != nil {
		return nil, err
	}
	d, r := s.result(p.out, allowed)
	return &quoratev1.AcquireResponse{Allowed: allowed, Handle: made.Handle, ExpiresIn: apiproto.Pause(made.Expires), Result: r.Response(&d)}, nil
}

// kindWords returns a kind's name in plain words.
func kindWords(k quota.Kind) string {
	if k == quota.TokenBucket {
		return "token bucket"
	}
	return k.String() + " window"
}

// checkHandle returns an error if a handle is malformed, or if the caller lacks the permission in a
// namespace of the reservation.
func (s *QuotaService) checkHandle(ctx context.Context, p rbac.Permission, handle string) error {
	ok := func(c rune) bool {
		return c < 0x80 && (c == '.' || c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z')
	}
	if n := len(handle); n == 0 || n > maxHandleLen || strings.ContainsFunc(handle, func(c rune) bool { return !ok(c) }) {
		return apierr.Invalid("handle", "is %q; must be what Reserve or Acquire returned", apierr.Clip(handle))
	}
	v := CallOf(ctx)
	if v == nil || v.Guard == nil {
		return nil
	}
	namespaces, err := s.node.ReservedIn(ctx, handle)
	if err != nil {
		return apierr.From(err)
	}
	for _, ns := range namespaces {
		if err := s.Require(ctx, p, ns); err != nil {
			return err
		}
	}
	return nil
}

// Settle implements quoratev1.QuotaServiceServer.
func (s *QuotaService) Settle(ctx context.Context, req *quoratev1.SettleRequest) (*quoratev1.SettleResponse, error) {
	used := int64(-1)
	if req.Used != nil {
		if used = *req.Used; used < 0 || used > quota.MaxTokens {
			return nil, apierr.Invalid("used", "%d; must be 0 to %d, or absent for all that was reserved", used, quota.MaxTokens)
		}
	}
	return &quoratev1.SettleResponse{}, s.end(ctx, rbac.Report, req.Handle, used)
}

// Release implements quoratev1.QuotaServiceServer.
func (s *QuotaService) Release(ctx context.Context, req *quoratev1.ReleaseRequest) (*quoratev1.ReleaseResponse, error) {
	return &quoratev1.ReleaseResponse{}, s.end(ctx, rbac.Check, req.Handle, 0)
}

func (s *QuotaService) end(ctx context.Context, p rbac.Permission, handle string, used int64) error {
	if err := s.checkHandle(ctx, p, handle); err != nil {
		return err
	}
	if err := s.node.Settle(ctx, handle, used); err != nil {
		return apierr.From(err)
	}
	return nil
}

// Renew implements quoratev1.QuotaServiceServer.
func (s *QuotaService) Renew(ctx context.Context, req *quoratev1.RenewRequest) (*quoratev1.RenewResponse, error) {
	if err := s.checkHandle(ctx, rbac.Check, req.Handle); err != nil {
		return nil, err
	}
	ttl, err := ttlOf(req.Ttl)
	if err != nil {
		return nil, err
	}
	if err := s.node.Renew(ctx, req.Handle, ttl); err != nil {
		return nil, apierr.From(err)
	}
	return &quoratev1.RenewResponse{}, nil
}
