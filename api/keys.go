package api

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// KeyService shows and resets single keys.
type KeyService struct {
	quoratev1.UnimplementedKeyServiceServer
	*core
	node keyNode
}

// GetKey implements quoratev1.KeyServiceServer.
func (s *KeyService) GetKey(ctx context.Context, req *quoratev1.GetKeyRequest) (*quoratev1.GetKeyResponse, error) {
	k, err := s.existing(ctx, req, rbac.KeysRead)
	if err != nil {
		return nil, err
	}
	counters, err := s.node.Key(ctx, k)
	if err != nil {
		return nil, apierr.From(err)
	}
	s.completeRules(counters)
	out := &quoratev1.GetKeyResponse{Counters: counters}
	// Overrides are stored under the limit's name, which may differ from the name in the request.
	if l, key := s.node.Limits().Resolve(k.LimitName, k.Key); l != nil {
		if o := s.node.Override(quota.Key{LimitName: l.LimitName, Key: key}); o != nil {
			out.Override = overrideProto(o)
		}
	}
	return out, nil
}

// ResetKey implements quoratev1.KeyServiceServer.
func (s *KeyService) ResetKey(ctx context.Context, req *quoratev1.ResetKeyRequest) (*quoratev1.ResetKeyResponse, error) {
	k, err := s.existing(ctx, req, rbac.KeysReset)
	if err != nil {
		return nil, err
	}
	if err := s.node.ResetKey(ctx, k); err != nil {
		return nil, apierr.From(err)
	}
	s.Log.InfoContext(ctx, "key reset", "limit", k.LimitName.String())
	return &quoratev1.ResetKeyResponse{}, nil
}

// existing validates a key whose limit exists, and the caller's permission. The global default
// counts a key of all namespaces together, so a permission in one namespace does not suffice for
// it.
func (s *KeyService) existing(ctx context.Context, m named, p rbac.Permission) (quota.Key, error) {
	k := keyOf(m)
	if err := apiproto.CheckCounter(&k); err != nil {
		return k, err
	}
	limits := s.node.Limits()
	l, _ := limits.Resolve(k.LimitName, k.Key)
	if l == nil {
		return k, s.noSuchLimit(k.LimitName)
	}
	if l.LimitName == quota.Global {
		if err := s.Require(ctx, p, l.Namespace); err != nil {
			return k, apierr.More(err, fmt.Sprintf("; %v does not exist, so the default of all namespaces counts it", k.LimitName))
		}
	}
	return k, nil
}

// completeRules adds the whole rule to each key whose limit this node knows. Rate and burst stay as
// the leader reports them: a key can have its own.
func (s *core) completeRules(keys []*quoratev1.KeyRate) {
	limits := s.node.Limits()
	for _, k := range keys {
		l, ok := limits.Find(quota.LimitName{Namespace: k.Namespace, Limit: k.Limit})
		if !ok {
			continue
		}
		rule := apiproto.Limit(l)
		if k.Rule != nil {
			rule.Rate, rule.Burst = k.Rule.Rate, k.Rule.Burst
		}
		k.Rule = rule
	}
}
