package rest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/access"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/apiproto"
)

const ann = "user:ann"

// adminCall is a call of AccountAdminService and the permissions that it needs.
type adminCall struct {
	name    string
	needs   []string
	binding map[string]string // in addition to app_id
	call    func(context.Context, quoratev1.AccountAdminServiceClient) error
}

func opOn(id account.ID) *quoratev1.Op {
	return &quoratev1.Op{AccountId: apiproto.AccountID(id), Delta: 1}
}

func opsOn(ops ...*quoratev1.Op) func(context.Context, quoratev1.AccountAdminServiceClient) error {
	return func(ctx context.Context, c quoratev1.AccountAdminServiceClient) error {
		_, err := c.ApplyOps(ctx, &quoratev1.ApplyOpsRequest{Ops: ops})
		return err
	}
}

func loading(version string) func(context.Context, quoratev1.AccountAdminServiceClient) error {
	return func(ctx context.Context, c quoratev1.AccountAdminServiceClient) error {
		_, err := c.WritePolicies(ctx, &quoratev1.LoadPoliciesRequest{
			AppId: "cv", Realm: "project:infra", Version: version,
			Config: &quoratev1.PolicyConfig{Policies: []*quoratev1.PolicyEntry{{Key: apiproto.PolicyKey(apitest.BuildKey), Policy: &quoratev1.Policy{Limit: 1}}}},
		})
		return err
	}
}

func listing(req *quoratev1.ListAccountsRequest) func(context.Context, quoratev1.AccountAdminServiceClient) error {
	req.AppId, req.Realm = "cv", "project:infra"
	return func(ctx context.Context, c quoratev1.AccountAdminServiceClient) error {
		_, err := c.ListAccounts(ctx, req)
		return err
	}
}

// adminCalls returns all calls of the service.
func adminCalls() []adminCall {
	type client = quoratev1.AccountAdminServiceClient
	ns := "ci"
	of := func(resource, namespace, self string) map[string]string {
		return map[string]string{access.Resource: resource, access.Namespace: namespace, access.Self: self}
	}
	return []adminCall{
		{"GetAccounts", []string{access.AccountsRead}, of("builds", "ci", "0"), func(ctx context.Context, c client) error {
			_, err := c.GetAccounts(ctx, &quoratev1.GetAccountsRequest{Accounts: []*quoratev1.AccountID{apiproto.AccountID(apitest.Alice)}})
			return err
		}},
		{"GetAccountHistory", []string{access.AccountsRead}, of("builds", "ci", "0"), func(ctx context.Context, c client) error {
			_, err := c.GetAccountHistory(ctx, &quoratev1.GetAccountHistoryRequest{AccountId: apiproto.AccountID(apitest.Alice)})
			return err
		}},
		{"ListAccounts", []string{access.AccountsList}, map[string]string{access.Resource: "builds", access.Namespace: "ci"}, listing(&quoratev1.ListAccountsRequest{Namespace: &ns, ResourceType: "builds"})},
		{"ApplyOps", []string{access.AccountsWrite}, of("builds", "ci", "0"), opsOn(opOn(apitest.Alice))},
		{"WritePolicies", []string{access.PoliciesWrite}, nil, loading("")},
		{"WritePolicies, own version", []string{access.PoliciesWrite, access.PoliciesOverrideVersion}, nil, loading("v7")},
		{"GetPolicies", []string{access.PoliciesRead}, nil, func(ctx context.Context, c client) error {
			_, err := c.GetPolicies(ctx, &quoratev1.GetPoliciesRequest{Id: apiproto.ConfigID(apitest.CvConfig)})
			return err
		}},
		{"ListPolicies", []string{access.PoliciesRead}, nil, func(ctx context.Context, c client) error {
			_, err := c.ListPolicies(ctx, &quoratev1.ListPoliciesRequest{AppId: "cv", Realm: "project:infra"})
			return err
		}},
		{"PurgePolicies", []string{access.PoliciesPurge}, nil, func(ctx context.Context, c client) error {
			_, err := c.PurgePolicies(ctx, &quoratev1.PurgePoliciesRequest{Id: apiproto.ConfigID(apitest.CvConfig)})
			return err
		}},
	}
}

// try makes a call with some grants and returns its error.
func (c *adminCall) try(t *testing.T, who string, g access.Grants) error {
	t.Helper()
	conn := dialGRPC(t, apitest.New(t).WithAccounts(), api.Options{Grants: g})
	return c.call(metadata.AppendToOutgoingContext(t.Context(), "quorate-user", who), quoratev1.NewAccountAdminServiceClient(conn))
}

func grant(realm string, permissions ...string) access.Grant {
	return access.Grant{Identity: ann, Realm: realm, Permissions: permissions}
}

func denied(t *testing.T, err error, permission, realm, who string) {
	t.Helper()
	st := status.Convert(err)
	if st.Code() != codes.PermissionDenied {
		t.Errorf("got %v, want %s to be denied", err, permission)
		return
	}
	for _, word := range []string{permission, realm, who} {
		if !strings.Contains(st.Message(), word) {
			t.Errorf("%q does not name %s", st.Message(), word)
		}
	}
	for _, d := range st.Details() {
		if i, ok := d.(*errdetails.ErrorInfo); ok && maps.Equal(i.Metadata, map[string]string{"permission": permission, "realm": realm, "identity": who}) {
			return
		}
	}
	t.Errorf("the details do not say what is missing: %v", st.Details())
}

// TestAccessPermissionChecksRequireTheRealmOrInternal: "Permission checks require one of:
// hasPermission(perm, operation_realm) OR hasPermission(perm, "@internal:<service-app-id>")." It
// makes every call with each required permission missing in turn, granted in the realm, and granted
// in the internal realm.
func TestAccessPermissionChecksRequireTheRealmOrInternal(t *testing.T) {
	for _, c := range adminCalls() {
		t.Run(c.name, func(t *testing.T) {
			for _, realm := range []string{"project:infra", "@internal:cv"} {
				if err := c.try(t, ann, access.List{grant(realm, c.needs...)}); err != nil {
					t.Errorf("granted in %s: %v", realm, err)
				}
				denied(t, c.try(t, "user:eve", access.List{grant(realm, c.needs...)}), c.needs[0], "project:infra", "user:eve")
				for _, missing := range c.needs {
					others := slices.DeleteFunc(access.Permissions(), func(p string) bool { return p == missing })
					denied(t, c.try(t, ann, access.List{grant(realm, others...)}), missing, "project:infra", ann)
				}
			}
			for _, elsewhere := range []string{"project:other", "@internal:rdb", ""} {
				denied(t, c.try(t, ann, access.List{grant(elsewhere, access.Permissions()...)}), c.needs[0], "project:infra", ann)
			}
			if err := c.try(t, ann, nil); err != nil {
				t.Errorf("without grants: %v", err)
			}
		})
	}
}

// TestAccessBindingContext checks "Binding context: {app_id, resource_type, namespace, self}" for
// each permission.
func TestAccessBindingContext(t *testing.T) {
	for _, c := range adminCalls() {
		t.Run(c.name, func(t *testing.T) {
			want := map[string]string{access.App: "cv"}
			maps.Copy(want, c.binding)
			seen := &seenGrants{}
			if err := c.try(t, ann, seen); err != nil {
				t.Fatal(err)
			}
			for i, got := range seen.bindings {
				if !maps.Equal(got, want) {
					t.Errorf("%s comes with %v, want %v", seen.permissions[i], got, want)
				}
				if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, slices.Sorted(slices.Values(access.Attributes(seen.permissions[i])))) {
					t.Errorf("%s comes with %v, which is not what access.Attributes says", seen.permissions[i], names)
				}
			}
			if !slices.Equal(slices.Compact(slices.Clone(seen.permissions)), c.needs) {
				t.Errorf("asked for %v, want %v", seen.permissions, c.needs)
			}
		})
	}
}

// seenGrants grants everything and records the questions.
type seenGrants struct {
	mu          sync.Mutex
	permissions []string
	bindings    []map[string]string
}

func (s *seenGrants) Has(_ context.Context, _, permission, _ string, binding map[string]string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.permissions, s.bindings = append(s.permissions, permission), append(s.bindings, binding)
	return true
}

// TestAccessSelf: "The self binding context attribute has the value "1" if the
// Account ID's identity field matches the current auth identity, "0" otherwise.".
func TestAccessSelf(t *testing.T) {
	own := access.List{{Identity: access.Anybody, Realm: "project:infra", Permissions: []string{access.AccountsRead, access.AccountsWrite}, When: map[string]string{access.Self: "1"}}}
	for _, c := range adminCalls()[:4] {
		if c.name == "ListAccounts" {
			continue
		}
		if err := c.try(t, apitest.Alice.Identity, own); err != nil {
			t.Errorf("%s: of their own account: %v", c.name, err)
		}
		denied(t, c.try(t, ann, own), c.needs[0], "project:infra", ann)
	}
	// An account without an identity does not belong to a caller without an identity.
	read := adminCall{call: func(ctx context.Context, c quoratev1.AccountAdminServiceClient) error {
		_, err := c.GetAccounts(ctx, &quoratev1.GetAccountsRequest{Accounts: []*quoratev1.AccountID{apiproto.AccountID(apitest.Nobody)}})
		return err
	}}
	denied(t, read.try(t, "", own), access.AccountsRead, "project:infra", api.Anonymous)
}

// TestAccessListIsNarrowed checks that a grant for one namespace, or one type, lists nothing else,
// and does not allow a list of everything.
func TestAccessListIsNarrowed(t *testing.T) {
	ci, other, empty := "ci", "other", ""
	for _, c := range []struct {
		when map[string]string
		req  *quoratev1.ListAccountsRequest
		ok   bool
	}{
		{map[string]string{access.Namespace: "ci"}, &quoratev1.ListAccountsRequest{Namespace: &ci}, true},
		{map[string]string{access.Namespace: "ci"}, &quoratev1.ListAccountsRequest{Namespace: &other}, false},
		{map[string]string{access.Namespace: "ci"}, &quoratev1.ListAccountsRequest{}, false},
		{map[string]string{access.Namespace: ""}, &quoratev1.ListAccountsRequest{Namespace: &empty}, true},
		{map[string]string{access.Namespace: ""}, &quoratev1.ListAccountsRequest{}, false},
		{map[string]string{access.Resource: "builds"}, &quoratev1.ListAccountsRequest{ResourceType: "builds"}, true},
		{map[string]string{access.Resource: "builds"}, &quoratev1.ListAccountsRequest{}, false},
		{map[string]string{access.Self: "1"}, &quoratev1.ListAccountsRequest{}, false},
	} {
		g := grant("project:infra", access.AccountsList)
		g.When = c.when
		call := adminCall{call: listing(c.req)}
		if err := call.try(t, ann, access.List{g}); (err == nil) != c.ok {
			t.Errorf("when %v, list %v: %v", c.when, c.req, err)
		}
	}
}

// TestAccessAbsoluteResource: "this only applies to accounts which do not have the
// option ABSOLUTE_RESOURCE", and "permissions granted in this realm [@internal]
// will ignore the ABSOLUTE_RESOURCE flag on accounts".
func TestAccessAbsoluteResource(t *testing.T) {
	setAbsolute := &quoratev1.Op{AccountId: apiproto.AccountID(account.ID{App: "cv", Realm: "project:infra", Name: "new", Resource: "slots"}), PolicyId: apiproto.PolicyRef(&account.PolicyRef{Config: apitest.CvConfig, Key: apitest.SlotKey})}
	loseAbsolute := &quoratev1.Op{AccountId: apiproto.AccountID(apitest.Slots), PolicyId: apiproto.PolicyRef(&account.PolicyRef{Config: apitest.CvConfig, Key: account.PolicyKey{Name: "unknown", Resource: "slots"}})}
	for name, c := range map[string]struct {
		ops   []*quoratev1.Op
		realm bool // the permission in the realm suffices
	}{
		"an ordinary account":                      {[]*quoratev1.Op{opOn(apitest.Alice)}, true},
		"one that does not exist":                  {[]*quoratev1.Op{opOn(apitest.Nobody)}, true},
		"one of an absolute resource":              {[]*quoratev1.Op{opOn(apitest.Slots)}, false},
		"among others":                             {[]*quoratev1.Op{opOn(apitest.Alice), opOn(apitest.Slots)}, false},
		"an operation that sets such a policy":     {[]*quoratev1.Op{setAbsolute}, false},
		"an operation that sets another policy":    {[]*quoratev1.Op{loseAbsolute}, false},
		"one before an operation that makes it so": {[]*quoratev1.Op{opOn(account.ID{App: "cv", Realm: "project:infra", Name: "new", Resource: "slots"}), setAbsolute}, false},
	} {
		t.Run(name, func(t *testing.T) {
			call := adminCall{call: opsOn(c.ops...)}
			if err := call.try(t, ann, access.List{grant("@internal:cv", access.AccountsWrite)}); err != nil {
				t.Errorf("internal: %v", err)
			}
			err := call.try(t, ann, access.List{grant("project:infra", access.AccountsWrite)})
			if c.realm && err != nil {
				t.Error(err)
			}
			if !c.realm {
				denied(t, err, access.AccountsWrite, "project:infra", ann)
				if !strings.Contains(err.Error(), "the resource is absolute") {
					t.Errorf("%v does not say why", err)
				}
			}
		})
	}
}

// TestAccessOverrideVersionOnlyTogetherWithWrite: "If granted in conjunction with
// quota.policies.write, allows writing new manually-versioned policy configs". The permission write
// alone allows configs that are named by the hash of their content.
func TestAccessOverrideVersionOnlyTogetherWithWrite(t *testing.T) {
	content, own := adminCall{call: loading("")}, adminCall{call: loading("v7")}
	write, override := grant("project:infra", access.PoliciesWrite), grant("project:infra", access.PoliciesOverrideVersion)
	internal := grant("@internal:cv", access.PoliciesOverrideVersion)
	if err := content.try(t, ann, access.List{write}); err != nil {
		t.Errorf("write: %v", err)
	}
	denied(t, content.try(t, ann, access.List{override, internal}), access.PoliciesWrite, "project:infra", ann)
	denied(t, own.try(t, ann, access.List{write}), access.PoliciesOverrideVersion, "project:infra", ann)
	denied(t, own.try(t, ann, access.List{override, internal}), access.PoliciesWrite, "project:infra", ann)
	for _, second := range []access.Grant{override, internal} {
		if err := own.try(t, ann, access.List{write, second}); err != nil {
			t.Errorf("both, of which one in %s: %v", second.Realm, err)
		}
	}
}

// TestAccessReadsOnlyWhatItMust checks that a caller with the permission in the internal realm
// causes no extra read, and that a refused call does not reach the node.
func TestAccessReadsOnlyWhatItMust(t *testing.T) {
	for _, c := range []struct {
		realm string
		reads int
		ops   bool
	}{{"@internal:cv", 0, true}, {"project:infra", 1, true}, {"project:other", 0, false}} {
		n := apitest.New(t).WithAccounts()
		client := quoratev1.NewAccountAdminServiceClient(dialGRPC(t, n, api.Options{Grants: access.List{grant(c.realm, access.AccountsWrite)}}))
		ctx := metadata.AppendToOutgoingContext(t.Context(), "quorate-user", ann)
		_, _ = client.ApplyOps(ctx, &quoratev1.ApplyOpsRequest{Ops: []*quoratev1.Op{opOn(apitest.Alice), opOn(apitest.Alice)}}) // the fake records the outcome
		if n.Accounts.Reads != c.reads || (n.Accounts.Ops != nil) != c.ops {
			t.Errorf("%s: %d reads, operations %v", c.realm, n.Accounts.Reads, n.Accounts.Ops)
		}
	}
}

// TestAccessRefusesWhatItCannotCheck checks that nothing is written while the policy that an
// account has, or would get, is unknown.
func TestAccessRefusesWhatItCannotCheck(t *testing.T) {
	ref := &account.PolicyRef{Config: apitest.CvConfig, Key: apitest.BuildKey}
	for name, op := range map[string]*quoratev1.Op{"account": opOn(apitest.Alice), "policy": {AccountId: apiproto.AccountID(apitest.Alice), PolicyId: apiproto.PolicyRef(ref)}} {
		n := apitest.New(t).WithAccounts()
		n.Accounts.Err = apitest.NoLeader{}
		client := quoratev1.NewAccountAdminServiceClient(dialGRPC(t, n, api.Options{Grants: access.List{grant("project:infra", access.AccountsWrite)}}))
		ctx := metadata.AppendToOutgoingContext(t.Context(), "quorate-user", ann)
		if _, err := client.ApplyOps(ctx, &quoratev1.ApplyOpsRequest{Ops: []*quoratev1.Op{op}}); status.Code(err) != codes.Unavailable || n.Accounts.Ops != nil {
			t.Errorf("%s: %v, operations %v", name, err, n.Accounts.Ops)
		}
	}
}

// TestAccessOnlyTheAdminServiceChecks: "These access controls ONLY apply to
// requests via the Administration service API.".
func TestAccessOnlyTheAdminServiceChecks(t *testing.T) {
	c := quoratev1.NewAccountServiceClient(dialGRPC(t, apitest.New(t).WithAccounts(), api.Options{Grants: access.List{}}))
	if _, err := c.ApplyOps(t.Context(), &quoratev1.ApplyOpsRequest{Ops: []*quoratev1.Op{opOn(apitest.Slots)}}); err != nil {
		t.Error(err)
	}
	if _, err := c.GetAccounts(t.Context(), &quoratev1.GetAccountsRequest{Accounts: []*quoratev1.AccountID{apiproto.AccountID(apitest.Slots)}}); err != nil {
		t.Error(err)
	}
	req := &quoratev1.LoadPoliciesRequest{AppId: "cv", Realm: "r", Version: "v", Config: api.ConfigProto(map[account.PolicyKey]account.Policy{apitest.SlotKey: apitest.Absolute})}
	if _, err := c.LoadPolicies(t.Context(), req); err != nil {
		t.Error(err)
	}
}

// TestAccessOverHTTP checks the same over HTTP, with the identity in a header.
func TestAccessOverHTTP(t *testing.T) {
	s := api.New(apitest.New(t).WithAccounts(), api.Options{Grants: access.List{{Identity: api.Anonymous, Realm: "project:infra", Permissions: []string{access.AccountsRead}}}})
	walkRouter(t, s, []step{
		{"GET", "/v1/admin/accounts:history?" + aliceQuery, "", 200, `"by":"user:alice"`, ""},
		{"POST", "/v1/admin/accounts:get", `{"accounts":[` + aliceJSON + `]}`, 200, aliceState, ""},
		{"GET", "/v1/admin/accounts?app_id=cv&realm=project:infra", "", 403, `\"anonymous:anonymous\" needs quota.accounts.list in realm \"project:infra\" or \"@internal:cv\"`, ""},
		{"POST", "/v1/admin/accounts:apply", `{"ops":[` + buildOp + `]}`, 403, `"detail":"ops[0].account_id: \"anonymous:anonymous\" needs quota.accounts.write`, ""},
		{"DELETE", "/v1/admin/policies?app_id=cv&realm=project:infra&version=$abc", "", 403, `"reason":"PERMISSION_DENIED"`, ""},
		{"POST", "/v1/accounts:apply", `{"ops":[` + buildOp + `]}`, 200, `"applied":true`, ""},
	})
}

// TestLongNameIsRefused checks that every call that needs the caller's identity refuses a name that is
// too long.
func TestLongNameIsRefused(t *testing.T) {
	n := apitest.New(t).WithAccounts()
	long := metadata.AppendToOutgoingContext(t.Context(), "quorate-user", strings.Repeat("x", 129))
	for name, f := range callsOf(dialGRPC(t, n, api.Options{})) {
		if err := f(long); status.Code(err) != codes.InvalidArgument {
			t.Errorf("a long name: %s: %v", name, err)
		}
	}
}

// callsOf returns all calls that need the caller's identity.
func callsOf(conn *grpc.ClientConn) map[string]func(context.Context) error {
	out := map[string]func(context.Context) error{}
	admin, app := quoratev1.NewAccountAdminServiceClient(conn), quoratev1.NewAccountServiceClient(conn)
	for _, c := range adminCalls() {
		out[c.name] = func(ctx context.Context) error { return c.call(ctx, admin) }
	}
	out["AccountService.ApplyOps"] = func(ctx context.Context) error {
		_, err := app.ApplyOps(ctx, &quoratev1.ApplyOpsRequest{Ops: []*quoratev1.Op{opOn(apitest.Alice)}})
		return err
	}
	out["AccountService.LoadPolicies"] = func(ctx context.Context) error {
		_, err := app.LoadPolicies(ctx, &quoratev1.LoadPoliciesRequest{AppId: "cv", Realm: "r", Config: api.ConfigProto(map[account.PolicyKey]account.Policy{apitest.SlotKey: apitest.Absolute})})
		return err
	}
	delete(out, "PurgePolicies") // so that GetPolicies finds them
	return out
}
