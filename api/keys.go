package api

import (
	"context"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

func (s *service) getKey(ctx context.Context, req *quoratev1.GetKeyRequest) (*quoratev1.GetKeyResponse, *fault) {
	k, f := s.existing(req)
	if f != nil {
		return nil, f
	}
	counters, err := s.keys.Key(ctx, k)
	if err != nil {
		return nil, fromError(err)
	}
	s.completeRules(counters)
	out := &quoratev1.GetKeyResponse{Counters: counters}
	if s.overrides != nil {
		// Overrides are kept under the names of limits, not under what finds them.
		l, key := s.node.Limits().Resolve(k.LimitName, k.Key)
		if l != nil {
			if o := s.overrides.Override(quota.Key{LimitName: l.LimitName, Key: key}); o != nil {
				out.Override = overrideProto(o)
			}
		}
	}
	return out, nil
}

func (s *service) resetKey(ctx context.Context, req *quoratev1.ResetKeyRequest) (*quoratev1.ResetKeyResponse, *fault) {
	k, f := s.existing(req)
	if f != nil {
		return nil, f
	}
	if err := s.keys.ResetKey(ctx, k); err != nil {
		return nil, fromError(err)
	}
	s.log.InfoContext(ctx, "key reset", "limit", k.LimitName.String())
	return &quoratev1.ResetKeyResponse{}, nil
}

// existing validates the key of a limit that there is.
func (s *service) existing(m named) (quota.Key, *fault) {
	k := keyOf(m)
	if s.keys == nil {
		return k, notServed("show or reset single keys")
	}
	if f := checkLimitKey(&k); f != nil {
		return k, f
	}
	limits := s.node.Limits()
	if l, _ := limits.Resolve(k.LimitName, k.Key); l == nil {
		return k, s.noSuchLimit(k.LimitName)
	}
	return k, nil
}

// completeRules shows the whole rule of each key where this node knows it. Rate
// and burst stay as the leader has them: a key can have its own.
func (s *service) completeRules(keys []*quoratev1.KeyRate) {
	limits := s.node.Limits()
	for _, k := range keys {
		l, ok := limits.Find(quota.LimitName{Namespace: k.Namespace, Limit: k.Limit})
		if !ok {
			continue
		}
		rule := LimitProto(l)
		if k.Rule != nil {
			rule.Rate, rule.Burst = k.Rule.Rate, k.Rule.Burst
		}
		k.Rule = rule
	}
}
