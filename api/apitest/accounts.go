package apitest

import (
	"context"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// fakeAccounts records the arguments of calls and returns the results that a test has set.
type fakeAccounts struct {
	Outcome account.Outcome
	Err     error
	states  []account.State // sorted
	Configs []account.Config
	Reads   int // number of GetAccounts calls

	By, Owner, Request string
	Ttl                time.Duration
	Ops                []account.Op
	Stale              bool
	Filter             account.Filter
	After              account.ID
	Loaded             map[account.PolicyKey]account.Policy
}

// FakeAt is the time of every operation in the fake: 2027-01-15T08:00:00Z.
const FakeAt = quota.Time(1_800_000_000e9)

// Accounts and policies for tests.
var (
	Alice    = account.ID{App: "cv", Realm: "project:infra", Identity: "user:alice", Namespace: "ci", Name: "alice", Resource: "builds"}
	Slots    = account.ID{App: "cv", Realm: "project:infra", Name: "slots", Resource: "slots"}
	Nobody   = account.ID{App: "cv", Realm: "project:infra", Name: "nobody", Resource: "builds"}
	CvConfig = account.ConfigID{App: "cv", Realm: "project:infra", Version: "$abc"}
	BuildKey = account.PolicyKey{Namespace: "ci", Name: "default", Resource: "builds"}
	SlotKey  = account.PolicyKey{Name: "slots", Resource: "slots"}
	tenADay  = account.Policy{Default: 10, Limit: 10, Refill: account.Refill{Units: 10, Interval: 86400}, Lifetime: 30 * 24 * time.Hour}
	Absolute = account.Policy{Limit: 5, Options: account.AbsoluteResource}
)

// WithAccounts adds two accounts and their policies: Alice with an ordinary policy, and Slots
// with the policy of an absolute resource.
func (n *Node) WithAccounts() *Node {
	n.Accounts.states = []account.State{
		{ID: Slots, Exists: true, Balance: 3, Projected: 3, Updated: FakeAt, Policy: &account.PolicyRef{Config: CvConfig, Key: SlotKey}, Rule: &Absolute, PolicySet: FakeAt},
		{
			ID: Alice, Exists: true, Balance: 7, Projected: 10, Updated: FakeAt, Refilled: FakeAt, Expires: FakeAt.Add(tenADay.Lifetime),
			Policy: &account.PolicyRef{Config: CvConfig, Key: BuildKey}, Rule: &tenADay, PolicySet: FakeAt, Next: FakeAt.Add(16 * time.Hour),
			History: []account.Change{{At: FakeAt, By: "user:alice", RequestID: "build-17", Previous: 8, New: 7}, {At: FakeAt - 1, By: "user:bob", Previous: 10, New: 8, Policy: &account.PolicyRef{Config: CvConfig, Key: BuildKey}}},
		},
	}
	n.Accounts.Configs = []account.Config{{ID: CvConfig, Policies: map[account.PolicyKey]account.Policy{SlotKey: Absolute, BuildKey: tenADay}, Count: 2, At: FakeAt, By: "user:bob"}}
	n.Accounts.Outcome = account.Outcome{Results: []account.Result{{New: 6, Previous: 7, Adjusted: 7}}, At: FakeAt}
	return n
}

// ApplyOps implements api.Node.
func (n *Node) ApplyOps(_ context.Context, by account.Caller, requestID string, ttl time.Duration, ops []account.Op) (account.Outcome, error) {
	a := &n.Accounts
	a.By, a.Owner, a.Request, a.Ttl, a.Ops = by.By, by.Owner, requestID, ttl, ops
	return a.Outcome, a.Err
}

// GetAccounts implements api.Node.
func (n *Node) GetAccounts(_ context.Context, ids []account.ID, stale bool) ([]account.State, quota.Time, error) {
	a := &n.Accounts
	a.Reads, a.Stale = a.Reads+1, stale
	out := make([]account.State, len(ids))
	for i, id := range ids {
		out[i] = account.State{ID: id}
		if at := slices.IndexFunc(a.states, func(s account.State) bool { return s.ID == id }); at >= 0 {
			out[i] = a.states[at]
		}
	}
	return out, FakeAt, a.Err
}

// ListAccounts implements api.Node.
func (n *Node) ListAccounts(_ context.Context, f account.Filter, after account.ID, limit int) (out []account.State, err error) {
	a := &n.Accounts
	a.Filter, a.After = f, after
	for _, s := range a.states {
		if s.ID.Compare(after) > 0 && len(out) < limit {
			out = append(out, s)
		}
	}
	return out, a.Err
}

// ListRealms implements api.Node.
func (n *Node) ListRealms(_ context.Context, after account.Realm, limit int) ([]account.Realm, error) {
	var list []account.Realm
	for _, s := range n.Accounts.states {
		list = append(list, account.Realm{App: s.ID.App, Name: s.ID.Realm, Accounts: true})
	}
	for _, c := range n.Accounts.Configs {
		list = append(list, account.Realm{App: c.ID.App, Name: c.ID.Realm, Configs: 1})
	}
	list = slices.DeleteFunc(account.MergeRealms(len(list), list), func(r account.Realm) bool { return r.Compare(after) <= 0 })
	return list[:min(limit, len(list))], n.Accounts.Err
}

// AccountHistory implements api.Node.
func (n *Node) AccountHistory(ctx context.Context, id account.ID) (account.State, error) {
	states, _, err := n.GetAccounts(ctx, []account.ID{id}, false)
	return states[0], err
}

// LoadPolicies implements api.Node.
func (n *Node) LoadPolicies(_ context.Context, by string, id account.ConfigID, policies map[account.PolicyKey]account.Policy) (account.ConfigID, bool, error) {
	a := &n.Accounts
	a.By, a.Loaded = by, policies
	if id.Version == "" {
		id.Version = "$hash"
	}
	if slices.ContainsFunc(a.Configs, func(c account.Config) bool { return c.ID == id }) {
		return id, false, a.Err
	}
	a.Configs = append(a.Configs, account.Config{ID: id, Policies: policies, Count: len(policies), At: FakeAt, By: by})
	return id, true, a.Err
}

// Policies implements api.Node.
func (n *Node) Policies(_ context.Context, id account.ConfigID) (*account.Config, error) {
	for i := range n.Accounts.Configs {
		if n.Accounts.Configs[i].ID == id {
			return &n.Accounts.Configs[i], n.Accounts.Err
		}
	}
	return nil, n.Accounts.Err
}

// ListPolicies implements api.Node.
func (n *Node) ListPolicies(_ context.Context, app, realm, after string, limit int) (out []account.Config, err error) {
	for _, c := range n.Accounts.Configs {
		if c.ID.App == app && c.ID.Realm == realm && c.ID.Version > after && len(out) < limit {
			c.Policies = nil
			out = append(out, c)
		}
	}
	return out, n.Accounts.Err
}

// PurgePolicies implements api.Node.
func (n *Node) PurgePolicies(_ context.Context, id account.ConfigID) (bool, error) {
	before := len(n.Accounts.Configs)
	n.Accounts.Configs = slices.DeleteFunc(n.Accounts.Configs, func(c account.Config) bool { return c.ID == id })
	return len(n.Accounts.Configs) < before, n.Accounts.Err
}
