package control

import (
	"cmp"
	"fmt"
	"slices"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds of the policies in the meta group; account.MaxPolicies bounds the policies in one config.
// Bytes are counted by policyConfig.size, which is about the memory that they take on a node.
const (
	maxConfigs     = 10_000
	maxConfigBytes = 4 << 20 // per config: a log entry that even a slow disk writes within a call
	MaxPolicyBytes = 64 << 20
)

// Sizes in bytes, without texts.
const (
	configSize = 128
	policySize = 96
)

// policyTable is all policy configs, sorted by ID. It is immutable: a change makes a new table, so
// readers need no lock and a snapshot needs no copy.
type policyTable struct {
	configs  []*policyConfig
	Bytes    int64
	Revision uint64 // number of changes that led to it
}

// policyConfig is one config. It is immutable.
type policyConfig struct {
	id       account.ConfigID
	policies []namedPolicy // sorted by key, without duplicates
	at       quota.Time
	by       string
}

type namedPolicy struct {
	key    account.PolicyKey
	policy account.Policy
}

func compareConfigs(a, b account.ConfigID) int {
	return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Realm, b.Realm), cmp.Compare(a.Version, b.Version))
}

// search returns the index at which the config is or would be, and whether it exists.
func (t *policyTable) search(id account.ConfigID) (int, bool) {
	return slices.BinarySearchFunc(t.configs, id, func(c *policyConfig, id account.ConfigID) int { return compareConfigs(c.id, id) })
}

// Find returns a config, or nil.
func (t *policyTable) Find(id account.ConfigID) *policyConfig {
	if i, ok := t.search(id); ok {
		return t.configs[i]
	}
	return nil
}

// find returns a policy, or nil. The policy is immutable.
func (c *policyConfig) find(k account.PolicyKey) *account.Policy {
	i, ok := slices.BinarySearchFunc(c.policies, k, func(p namedPolicy, k account.PolicyKey) int { return p.key.Compare(k) })
	if !ok {
		return nil
	}
	return &c.policies[i].policy
}

// size returns the config's size in bytes for the bounds. It is the same on all nodes, whatever
// their version of the encoding.
func (c *policyConfig) size() int64 {
	size := configSize + len(c.id.App) + len(c.id.Realm) + len(c.id.Version) + len(c.by)
	for i := range c.policies {
		k := &c.policies[i].key
		size += policySize + len(k.Namespace) + len(k.Name) + len(k.Resource)
	}
	return int64(size)
}

// with returns the table plus a config that it must not contain yet.
func (t *policyTable) with(c *policyConfig) *policyTable {
	i, _ := t.search(c.id)
	return &policyTable{
		configs: slices.Insert(slices.Clone(t.configs), i, c),
		Bytes:   t.Bytes + c.size(), Revision: t.Revision + 1,
	}
}

// without returns the table without its i-th config.
func (t *policyTable) without(i int) *policyTable {
	return &policyTable{
		configs: slices.Delete(slices.Clone(t.configs), i, i+1),
		Bytes:   t.Bytes - t.configs[i].size(), Revision: t.Revision + 1,
	}
}

// add appends a config to a table that is not shared yet.
func (t *policyTable) add(s *raftlogv1.MetaPolicyConfig) error {
	c, err := decodeConfig(s)
	if err != nil {
		return err
	}
	if n := len(t.configs); n > 0 && compareConfigs(t.configs[n-1].id, c.id) >= 0 {
		return fmt.Errorf("policies %v come after %v", c.id, t.configs[n-1].id)
	}
	t.configs, t.Bytes = append(t.configs, c), t.Bytes+c.size()
	return nil
}

// list returns up to limit configs of a realm with versions after the given one, without their
// policies.
func (t *policyTable) list(app, realm, after string, limit int) []account.Config {
	first, found := t.search(account.ConfigID{App: app, Realm: realm, Version: after})
	if found {
		first++
	}
	var out []account.Config
	for _, c := range t.configs[first:] {
		if len(out) >= limit || c.id.App != app || c.id.Realm != realm {
			break
		}
		out = append(out, c.summary())
	}
	return out
}

// realms returns up to limit realms that have configs and sort after the given one.
func (t *policyTable) realms(after account.Realm, limit int) []account.Realm {
	var out []account.Realm
	for _, c := range t.configs {
		r := account.Realm{App: c.id.App, Name: c.id.Realm, Configs: 1}
		switch n := len(out); {
		case n > 0 && out[n-1].Compare(r) == 0:
			out[n-1].Configs++
		case n >= limit:
			return out
		case r.Compare(after) > 0:
			out = append(out, r)
		}
	}
	return out
}

func (c *policyConfig) summary() account.Config {
	return account.Config{ID: c.id, Count: len(c.policies), At: c.at, By: c.by}
}

func (c *policyConfig) whole() *account.Config {
	out := c.summary()
	out.Policies = make(map[account.PolicyKey]account.Policy, len(c.policies))
	for i := range c.policies {
		out.Policies[c.policies[i].key] = c.policies[i].policy
	}
	return &out
}
