package api

import (
	"context"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// fakeAccounts remembers what it was asked and answers what a test has set.
type fakeAccounts struct {
	outcome account.Outcome
	err     error
	states  []account.State // sorted
	configs []account.Config
	reads   int // of accounts

	by, request string
	ttl         time.Duration
	ops         []account.Op
	stale       bool
	filter      account.Filter
	after       account.ID
	loaded      map[account.PolicyKey]account.Policy
}

// fakeAt is when everything happens in the fake: 2027-01-15T08:00:00Z.
const fakeAt = quota.Time(1_800_000_000e9)

var (
	alice    = account.ID{App: "cv", Realm: "project:infra", Identity: "user:alice", Namespace: "ci", Name: "alice", Resource: "builds"}
	slots    = account.ID{App: "cv", Realm: "project:infra", Name: "slots", Resource: "slots"}
	nobody   = account.ID{App: "cv", Realm: "project:infra", Name: "nobody", Resource: "builds"}
	cvConfig = account.ConfigID{App: "cv", Realm: "project:infra", Version: "$abc"}
	buildKey = account.PolicyKey{Namespace: "ci", Name: "default", Resource: "builds"}
	slotKey  = account.PolicyKey{Name: "slots", Resource: "slots"}
	tenADay  = account.Policy{Default: 10, Limit: 10, Refill: account.Refill{Units: 10, Interval: 86400}, Lifetime: 30 * 24 * time.Hour}
	absolute = account.Policy{Limit: 5, Options: account.AbsoluteResource}
)

// withAccounts adds accounts alice, of an ordinary policy, and slots, of one of an
// absolute resource.
func (n *fakeNode) withAccounts() *fakeNode {
	n.accounts.states = []account.State{
		{ID: slots, Exists: true, Balance: 3, Projected: 3, Updated: fakeAt, Policy: &account.PolicyRef{Config: cvConfig, Key: slotKey}, Rule: &absolute, PolicySet: fakeAt},
		{
			ID: alice, Exists: true, Balance: 7, Projected: 10, Updated: fakeAt, Refilled: fakeAt, Expires: fakeAt.Add(tenADay.Lifetime),
			Policy: &account.PolicyRef{Config: cvConfig, Key: buildKey}, Rule: &tenADay, PolicySet: fakeAt, Next: fakeAt.Add(16 * time.Hour),
			History: []account.Change{{At: fakeAt, By: "user:alice", RequestID: "build-17", Previous: 8, New: 7}, {At: fakeAt - 1, By: "user:bob", Previous: 10, New: 8, Policy: &account.PolicyRef{Config: cvConfig, Key: buildKey}}},
		},
	}
	n.accounts.configs = []account.Config{{ID: cvConfig, Policies: map[account.PolicyKey]account.Policy{slotKey: absolute, buildKey: tenADay}, Count: 2, At: fakeAt, By: "user:bob"}}
	n.accounts.outcome = account.Outcome{Results: []account.Result{{New: 6, Previous: 7, Adjusted: 7}}, At: fakeAt}
	return n
}

func (n *fakeNode) ApplyOps(_ context.Context, by, requestID string, ttl time.Duration, ops []account.Op) (account.Outcome, error) {
	a := &n.accounts
	a.by, a.request, a.ttl, a.ops = by, requestID, ttl, ops
	return a.outcome, a.err
}

func (n *fakeNode) GetAccounts(_ context.Context, ids []account.ID, stale bool) ([]account.State, quota.Time, error) {
	a := &n.accounts
	a.reads, a.stale = a.reads+1, stale
	out := make([]account.State, len(ids))
	for i, id := range ids {
		out[i] = account.State{ID: id}
		if at := slices.IndexFunc(a.states, func(s account.State) bool { return s.ID == id }); at >= 0 {
			out[i] = a.states[at]
		}
	}
	return out, fakeAt, a.err
}

func (n *fakeNode) ListAccounts(_ context.Context, f account.Filter, after account.ID, limit int) (out []account.State, err error) {
	a := &n.accounts
	a.filter, a.after = f, after
	for _, s := range a.states {
		if s.ID.Compare(after) > 0 && len(out) < limit {
			out = append(out, s)
		}
	}
	return out, a.err
}

func (n *fakeNode) AccountHistory(ctx context.Context, id account.ID) (account.State, error) {
	states, _, err := n.GetAccounts(ctx, []account.ID{id}, false)
	return states[0], err
}

func (n *fakeNode) LoadPolicies(_ context.Context, by string, id account.ConfigID, policies map[account.PolicyKey]account.Policy) (account.ConfigID, bool, error) {
	a := &n.accounts
	a.by, a.loaded = by, policies
	if id.Version == "" {
		id.Version = "$hash"
	}
	if slices.ContainsFunc(a.configs, func(c account.Config) bool { return c.ID == id }) {
		return id, false, a.err
	}
	a.configs = append(a.configs, account.Config{ID: id, Policies: policies, Count: len(policies), At: fakeAt, By: by})
	return id, true, a.err
}

func (n *fakeNode) Policies(_ context.Context, id account.ConfigID) (*account.Config, error) {
	for i := range n.accounts.configs {
		if n.accounts.configs[i].ID == id {
			return &n.accounts.configs[i], n.accounts.err
		}
	}
	return nil, n.accounts.err
}

func (n *fakeNode) ListPolicies(_ context.Context, app, realm, after string, limit int) (out []account.Config, err error) {
	for _, c := range n.accounts.configs {
		if c.ID.App == app && c.ID.Realm == realm && c.ID.Version > after && len(out) < limit {
			c.Policies = nil
			out = append(out, c)
		}
	}
	return out, n.accounts.err
}

func (n *fakeNode) PurgePolicies(_ context.Context, id account.ConfigID) (bool, error) {
	before := len(n.accounts.configs)
	n.accounts.configs = slices.DeleteFunc(n.accounts.configs, func(c account.Config) bool { return c.ID == id })
	return len(n.accounts.configs) < before, n.accounts.err
}
