package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// fakeAccounts is one range behind every node: the real state machine, at a fixed time. An
// operation on an account named "nobody-leads" finds no leader; one on "held" finds accounts that
// others hold.
type fakeAccounts struct {
	mu      sync.Mutex
	store   *account.Store
	configs map[account.ConfigID]account.Config
}

var (
	_ api.Accounts    = (*fakeCluster)(nil)
	_ api.PolicyStore = (*fakeCluster)(nil)
)

func newFakeAccounts() *fakeAccounts {
	return &fakeAccounts{store: account.New(account.Bounds{}), configs: map[account.ConfigID]account.Config{}}
}

func (a *fakeAccounts) ApplyOps(_ context.Context, by account.Caller, requestID string, ttl time.Duration, ops []account.Op) (account.Outcome, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch ops[0].Account.Name {
	case "nobody-leads":
		return account.Outcome{}, errNoLeader{}
	case "held":
		return account.Outcome{Code: account.Held}, nil
	}
	for i := range ops {
		if ref := ops[i].Policy; ref != nil {
			if p, ok := a.configs[ref.Config].Policies[ref.Key]; ok {
				ops[i].Rule = &p
			}
		}
	}
	return a.store.Apply(at, &account.Command{Apply: &account.Request{By: by.By, ID: requestID, TTL: ttl, Hash: account.HashOps(ops), Ops: ops}}), nil
}

func (a *fakeAccounts) GetAccounts(_ context.Context, ids []account.ID, _ bool) (out []account.State, now quota.Time, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		out = append(out, a.store.View().Get(at, id))
	}
	return out, at, nil
}

func (a *fakeAccounts) ListAccounts(_ context.Context, f account.Filter, after account.ID, limit int) ([]account.State, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.store.View().List(at, f, after, limit), nil
}

func (a *fakeAccounts) ListRealms(_ context.Context, after account.Realm, limit int) ([]account.Realm, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var configs []account.Realm
	for id := range a.configs {
		configs = append(configs, account.Realm{App: id.App, Name: id.Realm, Configs: 1})
	}
	configs = slices.DeleteFunc(configs, func(r account.Realm) bool { return r.Compare(after) <= 0 })
	return account.MergeRealms(limit, a.store.View().Realms(at, after, limit), configs), nil
}

func (a *fakeAccounts) AccountHistory(_ context.Context, id account.ID) (account.State, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.store.View().History(at, id), nil
}

func (a *fakeAccounts) LoadPolicies(_ context.Context, by string, id account.ConfigID, policies map[account.PolicyKey]account.Policy) (account.ConfigID, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if id.Version == "" {
		id.Version = account.HashPolicies(policies)
	}
	if _, there := a.configs[id]; there {
		return id, false, nil
	}
	a.configs[id] = account.Config{ID: id, Policies: policies, Count: len(policies), At: at, By: by}
	return id, true, nil
}

func (a *fakeAccounts) Policies(_ context.Context, id account.ConfigID) (*account.Config, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c, ok := a.configs[id]; ok {
		return &c, nil
	}
	return nil, nil //nolint:nilnil // as the interface requires
}

func (a *fakeAccounts) ListPolicies(_ context.Context, app, realm, after string, limit int) (out []account.Config, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, c := range a.configs {
		if id.App == app && id.Realm == realm && id.Version > after {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b account.Config) int { return strings.Compare(a.ID.Version, b.ID.Version) })
	return out[:min(limit, len(out))], nil
}

func (a *fakeAccounts) PurgePolicies(_ context.Context, id account.ConfigID) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, there := a.configs[id]
	delete(a.configs, id)
	return there, nil
}

// closedRealm is a realm in which only root has permissions.
const closedRealm = "project:closed"

type fakeGrants struct{}

func (fakeGrants) Has(_ context.Context, identity, _, realm string, _ map[string]string) bool {
	return identity == "root" || realm != closedRealm && realm != "@internal:closed"
}
