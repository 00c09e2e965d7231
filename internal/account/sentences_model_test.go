package account

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Each test in this file and its neighbours covers one sentence of the description of the model,
// which its comment paraphrases; docs/development/durable-quotas-sentences.md is the list.

// TestPoliciesAndAccounts: there are 2 types of entities, policies (in configs) and
// accounts.
func TestPoliciesAndAccounts(t *testing.T) {
	w := newWorld(t)
	w.must(op("a", 0, w.load("p", Policy{Default: 1, Limit: 2})))
	s := w.get("a")
	check(t, "account's policy", s.Policy.Key.Name, "p")
	check(t, "account's balance", s.Balance, 1)
}

// TestOperationsWorkOnEntities: operations all work in terms of these entities.
func TestOperationsWorkOnEntities(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 5, Limit: 9})
	check(t, "made by the policy", w.must(op("a", 0, p))[0].New, 5)
	check(t, "relative to zero", w.must(op("a", 7, nil).to(Zero))[0].New, 7)
	check(t, "relative to the default", w.must(op("a", 1, nil).to(Default))[0].New, 6)
	check(t, "relative to the limit", w.must(op("a", -1, nil).to(Limit))[0].New, 8)
}

// TestIdentityIsMadeOfAtoms: all entities have an identity composed of atoms, and
// every atom tells entities apart.
func TestIdentityIsMadeOfAtoms(t *testing.T) {
	w := newWorld(t)
	base := ID{App: "a", Realm: "r", Identity: "i", Namespace: "s", Name: "n", Resource: "t"}
	ids := []ID{base}
	for i := range 6 {
		other := base
		reflect.ValueOf(&other).Elem().Field(i).SetString("other")
		ids = append(ids, other)
	}
	for i, id := range ids {
		w.must(Op{Account: id, Delta: int64(i), RelativeTo: Zero, Options: IgnorePolicyBounds})
	}
	for i, id := range ids {
		check(t, id.Placement(), w.store.View().Get(w.now, id).Balance, int64(i))
	}
}

// TestAtomsMayHaveStructure: some atoms need structure, which the application defines.
func TestAtomsMayHaveStructure(t *testing.T) {
	w := newWorld(t)
	id := testID("x")
	for _, atom := range []string{"a|b", "a|b|c", "{BOu!rDZ", "|", "{", "a/b c", "ä|日本"} {
		id.Namespace, id.Name, id.Resource = atom, atom, atom
		w.must(Op{Account: id, Delta: 3, RelativeTo: Zero, Options: IgnorePolicyBounds})
		check(t, atom, w.store.View().Get(w.now, id).Balance, 3)
	}
}

// TestAtomsAreBounded: identifiers are keys, so absurd lengths are refused.
func TestAtomsAreBounded(t *testing.T) {
	for i, field := range []string{"app_id", "realm", "identity", "namespace", "name", "resource_type"} {
		id := testID("x")
		v := reflect.ValueOf(&id).Elem().Field(i)
		v.SetString(strings.Repeat("x", MaxAtom))
		check(t, field+" of 256 bytes", id.Validate(), nil)
		v.SetString(strings.Repeat("x", MaxAtom+1))
		err := id.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), field+": ") || !strings.Contains(err.Error(), "257 bytes; at most 256") {
			t.Errorf("%s of 257 bytes: %v", field, err)
		}
	}
}

// TestAppsShareOneInstance: several logical applications share one instance, such as
// "cv" and "rdb".
func TestAppsShareOneInstance(t *testing.T) {
	w := newWorld(t)
	cv, rdb := testID("x"), testID("x")
	rdb.App = "rdb"
	w.must(Op{Account: cv, Delta: 1, RelativeTo: Zero, Options: IgnorePolicyBounds},
		Op{Account: rdb, Delta: 2, RelativeTo: Zero, Options: IgnorePolicyBounds})
	v := w.store.View()
	check(t, "cv", v.Get(w.now, cv).Balance, 1)
	check(t, "rdb", v.Get(w.now, rdb).Balance, 2)
	check(t, "accounts of cv", len(v.List(w.now, Filter{App: "cv", Realm: cv.Realm}, ID{}, 10)), 1)
}

// TestRealmsOfAccountsAndConfigsDiffer: accounts and policy configs belong to a realm,
// likely not the same one.
func TestRealmsOfAccountsAndConfigsDiffer(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 4, Limit: 4})
	if p.Config.Realm == testID("a").Realm {
		t.Fatal("the realms are the same")
	}
	check(t, "balance", w.must(op("a", -1, p))[0].New, 3)
}

// TestRealmsAreGlobal: a realm names its project, so realms of the same name in two projects have
// different accounts.
func TestRealmsAreGlobal(t *testing.T) {
	w := newWorld(t)
	one, two := testID("a"), testID("a")
	one.Realm, two.Realm = "infra:try", "chromium:try"
	w.must(Op{Account: one, Delta: 1, RelativeTo: Zero, Options: IgnorePolicyBounds})
	check(t, "in the other project", w.store.View().Get(w.now, two).Exists, false)
}

// TestOneResourceType: a policy or account deals in a single resource type.
func TestOneResourceType(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Limit: 4})
	o := op("a", 1, p)
	o.Account.Resource = "bytes"
	r := w.request("", "", op("b", 1, p), o)
	err := r.Validate()
	want := `ops[1].policy_id.key.resource_type: "builds" but the account's is "bytes"`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	out := w.apply(w.store, Command{Apply: r})
	check(t, "outcome", out.Code, Failed)
	check(t, "of the sound one", out.Results[0].Status, Success)
	check(t, "of the faulty one", out.Results[1].Status, Unknown)
	check(t, "accounts", w.store.Stats().Accounts, 0)
}

// TestResourceTypeIsTheApplications: it only needs to make sense to the application.
func TestResourceTypeIsTheApplications(t *testing.T) {
	for _, s := range []string{"builds", "µs", "a thing|of ours", "{9jqo^"} {
		id := testID("a")
		id.Resource = s
		check(t, s, id.Validate(), nil)
	}
}

// TestNamespacesSegmentRealms: a namespace segments a realm into sub-domains, such as a
// single builder of a bucket.
func TestNamespacesSegmentRealms(t *testing.T) {
	w := newWorld(t)
	for i, ns := range []string{"bucket|linux", "bucket|mac", ""} {
		id := testID("a")
		id.Namespace = ns
		w.must(Op{Account: id, Delta: int64(i), RelativeTo: Zero, Options: IgnorePolicyBounds})
	}
	for i, ns := range []string{"bucket|linux", "bucket|mac", ""} {
		list := w.store.View().List(w.now, Filter{App: "cv", Realm: "chromium:try", Namespace: &ns}, ID{}, 10)
		if len(list) != 1 || list[0].Balance != int64(i) {
			t.Errorf("accounts in %q: %+v", ns, list)
		}
	}
}

// TestNamesAreTheApplications: the name only needs to make sense to the application.
func TestNamesAreTheApplications(t *testing.T) {
	for name, want := range map[string]string{
		"alice": "", "user:alice@example.com": "", "a b": "", "{": "",
		"a~b":  `name: "a~b" must not contain "~"`,
		"":     "name: is empty; 1 to 256 bytes",
		"a\n":  `name: "a\n" must not contain control characters (U+000A)`,
		"\xff": `name: "\xff" is not UTF-8`,
	} {
		id := testID("x")
		id.Name = name
		got := ""
		if err := id.Validate(); err != nil {
			got = err.Error()
		}
		check(t, name, got, want)
	}
}

// TestConfigIDIsAppRealmVersion: a config's id is app_id ~ realm ~ version.
func TestConfigIDIsAppRealmVersion(t *testing.T) {
	w := newWorld(t)
	base := *w.load("p", Policy{Default: 1, Limit: 9})
	for i := range 3 {
		other := base
		reflect.ValueOf(&other.Config).Elem().Field(i).SetString("#other")
		w.fails(UnknownPolicy, op("a", 0, &other))
	}
	w.must(op("a", 0, &base))
}

// TestVersionsAreHashesOrNames: the version is a content hash ("$") or a name from the caller
// ("#").
func TestVersionsAreHashesOrNames(t *testing.T) {
	for version, ok := range map[string]bool{
		"$0123abcd": true, "#v1": true, "#a|b": true, "#1f2e": true,
		"": false, "v1": false, "$": false, "#": false, "#a~b": false, "#a$b": false, "$a$b": false,
	} {
		c := ConfigID{App: "cv", Realm: "r", Version: version}
		check(t, version, c.Validate() == nil, ok)
	}
}

// TestSameContentSameVersion: content hashes deduplicate configs that have not changed.
func TestSameContentSameVersion(t *testing.T) {
	one := map[PolicyKey]Policy{
		{Name: "a", Resource: "builds"}: {Default: 1, Limit: 2},
		{Name: "b", Resource: "builds"}: {Default: 3, Limit: 4, Refill: Refill{Units: 1, Interval: 60}},
	}
	version := HashPolicies(one)
	check(t, "valid", ConfigID{App: "a", Realm: "r", Version: version}.Validate(), nil)
	for range 20 { // in any order
		check(t, "again", HashPolicies(maps.Clone(one)), version)
	}
	for name, change := range map[string]func(k *PolicyKey, p *Policy){
		"namespace": func(k *PolicyKey, _ *Policy) { k.Namespace = "n" },
		"name":      func(k *PolicyKey, _ *Policy) { k.Name = "c" },
		"resource":  func(k *PolicyKey, _ *Policy) { k.Resource = "bytes" },
		"default":   func(_ *PolicyKey, p *Policy) { p.Default++ },
		"limit":     func(_ *PolicyKey, p *Policy) { p.Limit++ },
		"units":     func(_ *PolicyKey, p *Policy) { p.Refill.Units = -1 },
		"interval":  func(_ *PolicyKey, p *Policy) { p.Refill.Interval = 30 },
		"offset":    func(_ *PolicyKey, p *Policy) { p.Refill.Offset = 1 },
		"options":   func(_ *PolicyKey, p *Policy) { p.Options = AbsoluteResource },
		"lifetime":  func(_ *PolicyKey, p *Policy) { p.Lifetime = time.Hour },
	} {
		k := PolicyKey{Name: "b", Resource: "builds"}
		other := map[PolicyKey]Policy{{Name: "a", Resource: "builds"}: {Default: 1, Limit: 2}}
		p := one[k]
		change(&k, &p)
		other[k] = p
		if HashPolicies(other) == version {
			t.Errorf("another %s makes the same version", name)
		}
	}
}

// TestManualVersionsAreFree: a version may be tied to an external one, such as a commit.
func TestManualVersionsAreFree(t *testing.T) {
	w := newWorld(t)
	ref := testRef("p")
	ref.Config.Version = "#8a4f0c3e2b"
	w.policies[*ref] = Policy{Default: 2, Limit: 2}
	check(t, "balance", w.must(op("a", -1, ref))[0].New, 1)
	check(t, "version", w.get("a").Policy.Config.Version, "#8a4f0c3e2b")
}

// TestPurgedPolicyStaysInAccounts: operations without a new policy continue with the copy in the
// account.
func TestPurgedPolicyStaysInAccounts(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 4, Limit: 6, Refill: Refill{Units: 1, Interval: 3600}})
	w.must(op("a", 0, p))
	w.purge(p)
	w.clock("01:00")
	check(t, "refilled and taken", w.must(op("a", -2, nil))[0].New, 3)
	check(t, "to the limit", w.must(op("a", 100, nil))[0].New, 6)
}

// TestNewPolicyMustExist: an operation with a policy needs that policy to exist, and it replaces
// the one in the account.
func TestNewPolicyMustExist(t *testing.T) {
	w := newWorld(t)
	p, q := w.load("p", Policy{Default: 4, Limit: 6}), w.load("q", Policy{Default: 1, Limit: 8})
	w.must(op("a", 0, p))
	w.purge(p)
	w.fails(UnknownPolicy, op("a", 1, p))
	w.must(op("a", 0, q))
	s := w.get("a")
	check(t, "policy", s.Policy.Key.Name, "q")
	check(t, "its copy's limit", s.Rule.Limit, 8)
}

// TestPolicyKeyIsNamespaceNameResource: a policy's key in its config.
func TestPolicyKeyIsNamespaceNameResource(t *testing.T) {
	w := newWorld(t)
	base := *w.load("p", Policy{Default: 1, Limit: 9})
	for i, other := range []PolicyRef{base, base} {
		reflect.ValueOf(&other.Key).Elem().Field(i).SetString("other")
		w.fails(UnknownPolicy, op("a", 0, &other))
	}
	check(t, "a key without a name", PolicyKey{Resource: "builds"}.Validate() == nil, false)
	check(t, "a key without a resource type", PolicyKey{Name: "p"}.Validate() == nil, false)
}

// TestPolicyHasFourNumbers: a policy stores default, limit, refill and lifetime, and an
// account has all of them.
func TestPolicyHasFourNumbers(t *testing.T) {
	w := newWorld(t)
	p := Policy{Default: 1, Limit: 2, Refill: Refill{Units: 3, Interval: 60, Offset: 5}, Lifetime: 7 * time.Hour}
	w.must(op("a", 0, w.load("p", p)))
	check(t, "policy", *w.get("a").Rule, p)
}

// TestDefaultIsOfNewAccounts: the default is the balance of an account at its first access.
func TestDefaultIsOfNewAccounts(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 4, Limit: 9})
	r := w.must(op("a", 0, p), op("a", 1, p))
	check(t, "first", r[0], Result{New: 4, Created: true})
	check(t, "second", r[1], Result{New: 5, Previous: 4, Adjusted: 4})
}

// TestLimitIsTheMost: the limit is the maximum value that an account can have.
func TestLimitIsTheMost(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 4, Limit: 9, Refill: Refill{Units: 4, Interval: 1}})
	check(t, "by an operation", w.must(op("a", 100, p))[0].New, 9)
	w.must(op("a", -1, nil))
	w.pass(time.Hour)
	w.balance("a", 9)
	bad := Policy{Default: 10, Limit: 9}
	check(t, "a default above", bad.Validate() == nil, false)
}

// TestOptionsAreBits: options are a bit field with a single option, ABSOLUTE_RESOURCE.
func TestOptionsAreBits(t *testing.T) {
	for options, ok := range map[PolicyOptions]bool{0: true, AbsoluteResource: true, 2: false, 3: false, -1: false} {
		p := Policy{Options: options}
		check(t, "valid", p.Validate() == nil, ok)
	}
	w := newWorld(t)
	w.must(op("a", 0, w.load("p", Policy{Options: AbsoluteResource})))
	check(t, "in the account", w.get("a").Rule.Options, AbsoluteResource)
}

// TestLifetimeCollects: an account is deleted when its lifetime since the last update ends.
func TestLifetimeCollects(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 4, Limit: 9, Lifetime: 10 * time.Second})
	w.must(op("a", 0, p))
	w.pass(10*time.Second - 1)
	w.balance("a", 4)
	check(t, "due", w.store.Due(w.now), false)
	w.pass(1)
	check(t, "exists", w.get("a").Exists, false)
	w.fails(MissingAccount, op("a", 1, nil))
	check(t, "due", w.store.Due(w.now), true)
	w.apply(w.store, Command{Collect: &Collect{Max: 1}})
	check(t, "accounts", w.store.Stats().Accounts, 0)
	check(t, "due afterwards", w.store.Due(w.now), false)
}

// TestLifetimeIsRefreshed: each write of the account restarts its lifetime.
func TestLifetimeIsRefreshed(t *testing.T) {
	w := newWorld(t)
	w.must(op("a", 0, w.load("p", Policy{Default: 4, Limit: 9, Lifetime: 10 * time.Second})))
	for range 5 {
		w.pass(9 * time.Second)
		w.must(op("a", 0, nil))
		w.apply(w.store, Command{Collect: &Collect{Max: 10}})
	}
	check(t, "expires", w.get("a").Expires, w.now.Add(10*time.Second))
	w.pass(10 * time.Second)
	check(t, "exists", w.get("a").Exists, false)
}

// TestAccountIDIsFiveAtoms: app_id ~ realm ~ namespace ~ name ~ resource_type, and the account's
// identity.
func TestAccountIDIsFiveAtoms(t *testing.T) {
	id := ID{App: "a", Realm: "b", Identity: "c", Namespace: "d", Name: "e", Resource: "f"}
	back, ok := parseKey(id.key())
	check(t, "back", back, id)
	check(t, "sound", ok, true)
	id.Identity, id.Namespace = "", ""
	check(t, "nobody's, in no namespace", id.Validate(), nil)
	for i, field := range []string{"app_id", "realm", "", "", "name", "resource_type"} {
		if field == "" {
			continue
		}
		without := testID("x")
		reflect.ValueOf(&without).Elem().Field(i).SetString("")
		check(t, "without "+field, without.Validate().Error(), field+": is empty; 1 to 256 bytes")
	}
}

// TestAccountsHaveOwners: an account holds the balance of one identity for one resource.
func TestAccountsHaveOwners(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 5, Limit: 5})
	w.must(op("alice", -1, p), op("bob", -2, p))
	w.balance("alice", 4)
	w.balance("bob", 3)
	alice := "user:alice"
	list := w.store.View().List(w.now, Filter{App: "cv", Realm: "chromium:try", Identity: &alice}, ID{}, 10)
	check(t, "alice's accounts", len(list), 1)
}

// TestBalanceIsUnitsHeld: the current number of units.
func TestBalanceIsUnitsHeld(t *testing.T) {
	w := newWorld(t)
	w.must(op("a", -3, w.load("p", Policy{Default: 5, Limit: 5})))
	check(t, "balance", w.get("a").Balance, 2)
}

// TestLastUpdate: when the account was last updated.
func TestLastUpdate(t *testing.T) {
	w := newWorld(t)
	w.must(op("a", 0, w.load("p", Policy{Limit: 5})))
	w.clock("10:00")
	w.must(op("a", 1, nil))
	check(t, "updated", w.get("a").Updated, w.now)
	at := w.now
	w.clock("11:00")
	check(t, "read later", w.get("a").Updated, at)
}

// TestLastRefill: when the account was last refilled, never after the last update.
func TestLastRefill(t *testing.T) {
	w := newWorld(t)
	w.must(op("a", 0, w.load("p", Policy{Limit: 5, Refill: Refill{Units: 1, Interval: 3600}})))
	check(t, "new", w.get("a").Refilled, 0)
	w.clock("01:30")
	w.must(op("a", 0, nil))
	refilled := w.now
	check(t, "refilled", w.get("a").Refilled, refilled)
	w.clock("01:40")
	w.must(op("a", 0, nil))
	s := w.get("a")
	check(t, "updated without a refill", s.Refilled, refilled)
	check(t, "not behind the update", s.Refilled <= s.Updated, true)
}

// TestLastPolicyChange: when the account's current policy was first set.
func TestLastPolicyChange(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Limit: 5})
	w.must(op("a", 0, p))
	w.clock("01:00")
	w.must(op("a", 0, p))
	check(t, "set again", w.get("a").PolicySet, midnight)
	w.must(op("a", 0, w.load("q", Policy{Limit: 5})))
	check(t, "another", w.get("a").PolicySet, w.now)
}

// TestAccountNamesItsConfig: the account names the config that was last used.
func TestAccountNamesItsConfig(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Limit: 5})
	w.must(op("a", 0, p))
	check(t, "config", w.get("a").Policy.Config, p.Config)
}

// TestAccountNamesItsPolicy: and the policy's key in it.
func TestAccountNamesItsPolicy(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Limit: 5})
	w.must(op("a", 0, p))
	check(t, "key", w.get("a").Policy.Key, p.Key)
}

// TestAccountKeepsItsPolicy: and a copy of the policy, so that the account can be used
// without reading the policy again.
func TestAccountKeepsItsPolicy(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 1, Limit: 5})
	w.must(op("a", 0, p))
	w.policies[*p] = Policy{Default: 2, Limit: 9} // purged, and loaded as something else
	w.must(op("a", 1, nil))
	check(t, "limit", w.get("a").Rule.Limit, 5)
	check(t, "to the limit", w.must(op("a", 9, p))[0].New, 5)
}
