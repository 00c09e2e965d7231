package control

import (
	"fmt"
	"slices"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// newPolicyConfig returns a config with its policies sorted by key.
func newPolicyConfig(id account.ConfigID, policies map[account.PolicyKey]account.Policy, at quota.Time, by string) *policyConfig {
	c := &policyConfig{id: id, at: at, by: by, policies: make([]namedPolicy, 0, len(policies))}
	for k, p := range policies {
		c.policies = append(c.policies, namedPolicy{k, p})
	}
	slices.SortFunc(c.policies, func(a, b namedPolicy) int { return a.key.Compare(b.key) })
	return c
}

func encodeConfigID(id account.ConfigID) *raftlogv1.MetaPolicyConfigID {
	return &raftlogv1.MetaPolicyConfigID{App: id.App, Realm: id.Realm, Version: id.Version}
}

func decodeConfigID(id *raftlogv1.MetaPolicyConfigID) account.ConfigID {
	return account.ConfigID{App: id.GetApp(), Realm: id.GetRealm(), Version: id.GetVersion()}
}

func encodeConfig(c *policyConfig) *raftlogv1.MetaPolicyConfig {
	out := &raftlogv1.MetaPolicyConfig{
		Id: encodeConfigID(c.id), AtUnixNanos: int64(c.at), By: c.by, Policies: make([]*raftlogv1.MetaPolicy, len(c.policies)),
	}
	for i := range c.policies {
		k, p := &c.policies[i].key, &c.policies[i].policy
		out.Policies[i] = &raftlogv1.MetaPolicy{
			Namespace: k.Namespace, Name: k.Name, Resource: k.Resource,
			Default: p.Default, Limit: p.Limit, Options: int32(p.Options), LifetimeNanos: int64(p.Lifetime),
			RefillUnits: p.Refill.Units, RefillInterval: p.Refill.Interval, RefillOffset: p.Refill.Offset,
		}
	}
	return out
}

// decodeConfig checks a config as a whole. The node that took the call checks the content of the
// policies.
func decodeConfig(s *raftlogv1.MetaPolicyConfig) (*policyConfig, error) {
	c := &policyConfig{
		id: decodeConfigID(s.GetId()), at: quota.Time(s.GetAtUnixNanos()), by: s.GetBy(),
		policies: make([]namedPolicy, len(s.GetPolicies())),
	}
	for i, p := range s.GetPolicies() {
		c.policies[i] = namedPolicy{
			account.PolicyKey{Namespace: p.GetNamespace(), Name: p.GetName(), Resource: p.GetResource()},
			account.Policy{
				Default: p.GetDefault(), Limit: p.GetLimit(), Options: account.PolicyOptions(p.GetOptions()), Lifetime: time.Duration(p.GetLifetimeNanos()),
				Refill: account.Refill{Units: p.GetRefillUnits(), Interval: p.GetRefillInterval(), Offset: p.GetRefillOffset()},
			},
		}
	}
	err := c.check()
	return c, err
}

func (c *policyConfig) check() error {
	if v := c.id.Version; len(v) < 2 || v[0] != '$' && v[0] != '#' {
		return fmt.Errorf("policies: version: %q; must be %q and a hash of the content, or %q and a name", v, "$", "#")
	}
	if n := len(c.policies); n == 0 || n > account.MaxPolicies {
		return fmt.Errorf("policies: %d in one config; must be 1 to %d", n, account.MaxPolicies)
	}
	for i := range c.policies[1:] {
		if a, b := c.policies[i].key, c.policies[i+1].key; a.Compare(b) >= 0 {
			return fmt.Errorf("policies: %v comes after %v", b, a)
		}
	}
	return nil
}
