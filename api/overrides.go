package api

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

const defaultOverrides = 100 // on a page

// OverrideService keeps the overrides of the cluster.
type OverrideService struct {
	quoratev1.UnimplementedOverrideServiceServer
	*core
	node overrideNode
}

// SetOverrides implements quoratev1.OverrideServiceServer.
func (s *OverrideService) SetOverrides(ctx context.Context, req *quoratev1.SetOverridesRequest) (*quoratev1.SetOverridesResponse, error) {
	if n := len(req.Overrides); n < 1 || n > apiproto.MaxList {
		return nil, apierr.Invalid("overrides", "%d overrides; must be 1 to %d", n, apiproto.MaxList)
	}
	list := make([]quota.Override, len(req.Overrides))
	for i, p := range req.Overrides {
		o, err := s.overrideOf(ctx, p)
		if err != nil {
			return nil, apierr.In(fmt.Sprintf("overrides[%d]", i), err)
		}
		list[i] = o
	}
	if err := s.node.SetOverrides(ctx, list); err != nil {
		return nil, apierr.From(err)
	}
	return &quoratev1.SetOverridesResponse{Set: int32(len(list))}, nil
}

// overrideOf validates an override and returns it.
func (s *OverrideService) overrideOf(ctx context.Context, p *quoratev1.Override) (o quota.Override, err error) {
	o = quota.Override{Key: keyOf(p), Burst: -1, Comment: p.GetComment(), At: quota.Time(time.Now().UnixNano())}
	if err := apiproto.CheckLimitKey(&o.Key); err != nil {
		return o, err
	}
	if o.By, err = author(ctx, p.Author, p.Comment); err != nil {
		return o, err
	}
	if p.Class < 0 || p.Class > quoratev1.Class_CLASS_BANNED {
		return o, apierr.Invalid("class", "%d; must be counted, unlimited or banned", p.Class)
	}
	if p.Class > 0 {
		o.Class = quota.Class(p.Class - 1)
	}
	if p.Burst != nil {
		if o.Burst = *p.Burst; o.Burst < 0 || o.Burst > quota.MaxTokens {
			return o, apierr.Invalid("burst", "%d; must be 0 to %d, or absent", o.Burst, quota.MaxTokens)
		}
	}
	if p.Rate != "" {
		r, err := quota.ParseRate(p.Rate)
		if err != nil {
			return o, apierr.Invalid("rate", "%s", strings.TrimPrefix(err.Error(), "rate "))
		}
		o.Rate = r
	}
	if p.Scale < 0 || p.Scale > quota.MaxScale/quota.Million || math.IsNaN(p.Scale) || p.Scale > 0 && p.Scale < 1./quota.Million {
		return o, apierr.Invalid("scale", "%v; must be 0.000001 to %d, or 0 for none", p.Scale, quota.MaxScale/quota.Million)
	}
	o.Scale = int64(math.Round(p.Scale * quota.Million))
	err = s.fits(&o, p)
	return o, err
}

func (s *OverrideService) fits(o *quota.Override, p *quoratev1.Override) error {
	if p.Expires != nil {
		if err := p.Expires.CheckValid(); err != nil || p.Expires.AsTime().Year() > 2261 {
			return apierr.Invalid("expires", "must be a time up to the year 2261")
		}
		o.Expires = quota.Time(p.Expires.AsTime().UnixNano())
		if !p.Expires.AsTime().After(time.Unix(0, int64(o.At))) { // nanoseconds of a time before 1678 would be later
			return apierr.Invalid("expires", "%s has passed; must be in the future", p.Expires.AsTime().Format(time.RFC3339))
		}
	}
	if err := o.Validate(); err != nil {
		return apierr.Invalid("", "%v", err)
	}
	limits := s.node.Limits()
	l, ok := limits.Find(o.Key.LimitName)
	if !ok {
		if l, _ = limits.Resolve(o.Key.LimitName, o.Key.Key); l != nil && strings.HasPrefix(l.LimitName.Limit, "@") {
			return apierr.Invalid("limit", "%v is served by %v; give that name, and the key that its buckets have", o.Key.LimitName, l.LimitName)
		}
		return s.noSuchLimit(o.Key.LimitName)
	}
	if err := o.Fits(l); err != nil {
		return apierr.Invalid("", "%v", err)
	}
	return nil
}

func overrideProto(o *quota.Override) *quoratev1.Override {
	out := &quoratev1.Override{
		Namespace: o.Key.Namespace, Limit: o.Key.LimitName.Limit, Key: o.Key.Key, Class: quoratev1.Class(o.Class + 1),
		Scale: float64(o.Scale) / quota.Million, Expires: apiproto.Time(o.Expires), Comment: o.Comment, Author: o.By, At: apiproto.Time(o.At),
	}
	if o.Burst >= 0 {
		out.Burst = &o.Burst
	}
	if o.Rate.Per > 0 {
		out.Rate = o.Rate.String()
	}
	return out
}

// DeleteOverrides implements quoratev1.OverrideServiceServer.
func (s *OverrideService) DeleteOverrides(ctx context.Context, req *quoratev1.DeleteOverridesRequest) (*quoratev1.DeleteOverridesResponse, error) {
	if n := len(req.Keys); n < 1 || n > apiproto.MaxList {
		return nil, apierr.Invalid("keys", "%d keys; must be 1 to %d", n, apiproto.MaxList)
	}
	keys := make([]quota.Key, len(req.Keys))
	for i, ref := range req.Keys {
		keys[i] = keyOf(ref)
		if err := apiproto.CheckLimitKey(&keys[i]); err != nil {
			return nil, apierr.In(fmt.Sprintf("keys[%d]", i), err)
		}
	}
	n, err := s.node.DeleteOverrides(ctx, keys)
	if err != nil {
		return nil, apierr.From(err)
	}
	return &quoratev1.DeleteOverridesResponse{Deleted: int32(n)}, nil
}

// ListOverrides implements quoratev1.OverrideServiceServer.
func (s *OverrideService) ListOverrides(_ context.Context, req *quoratev1.ListOverridesRequest) (*quoratev1.ListOverridesResponse, error) {
	most, err := pageSize(req.Max, defaultOverrides)
	if err != nil {
		return nil, err
	}
	name := quota.LimitName{Namespace: req.Namespace, Limit: req.Limit}
	if name.Limit != "" {
		err = apiproto.CheckLimitName(name)
	} else if name.Namespace != "" {
		err = apiproto.CheckLimitName(quota.LimitName{Namespace: name.Namespace, Limit: quota.Default})
	}
	if err != nil {
		return nil, err
	}
	after, err := parseAfter(req.After)
	if err != nil {
		return nil, err
	}
	list, total := s.node.ListOverrides(name, after, most)
	out := &quoratev1.ListOverridesResponse{Total: int32(total)}
	for i := range list {
		out.Overrides = append(out.Overrides, overrideProto(&list[i]))
	}
	if len(list) == most {
		out.Next = list[most-1].Key.String()
	}
	return out, nil
}

// parseAfter parses namespace/limit/key, a position in the list of overrides.
func parseAfter(s string) (quota.Key, error) {
	if s == "" {
		return quota.Key{}, nil
	}
	part := strings.SplitN(s, "/", 3)
	if len(part) < 3 {
		return quota.Key{}, apierr.Invalid("after", "is %q; must be next of the previous page: namespace/limit/key", apierr.Clip(s))
	}
	return quota.Key{LimitName: quota.LimitName{Namespace: part[0], Limit: part[1]}, Key: part[2]}, nil
}

// GetOverride implements quoratev1.OverrideServiceServer.
func (s *OverrideService) GetOverride(_ context.Context, req *quoratev1.GetOverrideRequest) (*quoratev1.GetOverrideResponse, error) {
	k := keyOf(req)
	if err := apiproto.CheckLimitKey(&k); err != nil {
		return nil, err
	}
	o := s.node.Override(k)
	if o == nil {
		return nil, &apierr.Error{Code: codes.NotFound, HTTP: 404, Reason: "NO_SUCH_OVERRIDE", Field: "key", Detail: fmt.Sprintf("unknown override of %v for %q", k.LimitName, apierr.Clip(k.Key))}
	}
	return &quoratev1.GetOverrideResponse{Override: overrideProto(o)}, nil
}
