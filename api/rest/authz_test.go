package rest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apijson"
	"github.com/quorate/quorate/api/apitest"
	"github.com/quorate/quorate/api/auth"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/api/grpcapi"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/rbac"
)

// grpcMethods returns all methods of a server, and whether each is a stream.
func grpcMethods(t testing.TB, s *secured) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	srv := grpcapi.New(api.New(s, s.opts), s.others)
	defer srv.Stop()
	for service, info := range srv.GetServiceInfo() {
		for _, m := range info.Methods {
			out["/"+service+"/"+m.Name] = m.IsServerStream || m.IsClientStream
		}
	}
	return out
}

// TestEveryCallHasARule checks that every registered method, every route and every method of the
// contract is in the table, and that the table has nothing else.
func TestEveryCallHasARule(t *testing.T) {
	s := newSecured(t, nil)
	want := map[string]bool{"/api": true, "/api/stats": true, "/debug": true, Console: true}
	for _, m := range []string{ // of fronts, which internal/cli/server registers
		"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", "/json",
		"/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas",
		"/v1/GetRateLimits", "/v1/HealthCheck", "/v1/LiveCheck",
	} {
		want[m] = true
	}
	for m := range grpcMethods(t, s) {
		want[m] = true
	}
	for _, r := range newRouter(api.New(s, s.opts), s.web).routes() {
		want[r.name()] = true
	}
	protoregistry.GlobalFiles.RangeFilesByPackage("quorate.v1", func(fd protoreflect.FileDescriptor) bool {
		for i := range fd.Services().Len() {
			sd := fd.Services().Get(i)
			for j := range sd.Methods().Len() {
				want["/"+string(sd.FullName())+"/"+string(sd.Methods().Get(j).Name())] = true
			}
		}
		return true
	})
	for m := range want {
		if r, ok := auth.RuleOf(m); !ok || r.Need == 0 {
			t.Errorf("%s is not in the table of permissions (api/auth/rules.go): it is denied to everybody", m)
		}
	}
	for _, m := range auth.Methods() {
		if !want[m] {
			t.Errorf("the table has %s, which nothing serves", m)
		}
	}
}

// sample returns a request of a method, in the namespace web or the realm project:infra, that
// reaches the checks of Inside.
func sample(t testing.TB, method string) proto.Message {
	t.Helper()
	web := []*quoratev1.AllowRequest{{Namespace: "web", Limit: "per_client", Key: "k"}}
	id := apiproto.AccountID(apitest.Alice)
	realm := func() (string, string) { return "cv", "project:infra" }
	app, in := realm()
	special := map[string]proto.Message{
		"QuotaService/AllowBatch":               &quoratev1.AllowBatchRequest{Checks: web},
		"QuotaService/AllowAll":                 &quoratev1.AllowAllRequest{Checks: web},
		"QuotaService/Reserve":                  &quoratev1.ReserveRequest{Checks: web},
		"LimitService/ApplyLimits":              &quoratev1.ApplyLimitsRequest{Yaml: "web/a 1/s 1", DryRun: true},
		"LimitService/RollbackLimits":           &quoratev1.RollbackLimitsRequest{Version: 7},
		"OverrideService/SetOverrides":          &quoratev1.SetOverridesRequest{Overrides: []*quoratev1.Override{{Namespace: "web"}}},
		"OverrideService/DeleteOverrides":       &quoratev1.DeleteOverridesRequest{Keys: []*quoratev1.KeyRef{{Namespace: "web"}}},
		"AccountService/ApplyOps":               &quoratev1.ApplyOpsRequest{Ops: []*quoratev1.Op{opOn(apitest.Alice)}},
		"AccountService/GetAccounts":            &quoratev1.GetAccountsRequest{Accounts: []*quoratev1.AccountID{id}},
		"AccountAdminService/GetAccounts":       &quoratev1.GetAccountsRequest{Accounts: []*quoratev1.AccountID{id}},
		"AccountAdminService/ApplyOps":          &quoratev1.ApplyOpsRequest{Ops: []*quoratev1.Op{opOn(apitest.Alice)}},
		"AccountAdminService/GetAccountHistory": &quoratev1.GetAccountHistoryRequest{AccountId: id},
		"AccountAdminService/ListAccounts":      &quoratev1.ListAccountsRequest{AppId: app, Realm: in},
		"AccountAdminService/GetPolicies":       &quoratev1.GetPoliciesRequest{Id: apiproto.ConfigID(apitest.CvConfig)},
		"AccountAdminService/ListPolicies":      &quoratev1.ListPoliciesRequest{AppId: app, Realm: in},
		"AccountAdminService/PurgePolicies":     &quoratev1.PurgePoliciesRequest{Id: apiproto.ConfigID(apitest.CvConfig)},
		"AccountAdminService/WritePolicies":     samplePolicies(),
		"AccountService/LoadPolicies":           samplePolicies(),
		"ServerReflection/ServerReflectionInfo": &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}},
		"SecurityService/SetBinding":            &quoratev1.SetBindingRequest{Binding: &quoratev1.Binding{Identity: "user:x", Role: "checker"}},
	}
	for name, m := range special {
		if strings.HasSuffix(method, "."+name) {
			return m
		}
	}
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")))
	if err != nil {
		t.Fatal(err)
	}
	mt, err := protoregistry.GlobalTypes.FindMessageByName(d.(protoreflect.MethodDescriptor).Input().FullName())
	if err != nil {
		t.Fatal(err)
	}
	m := mt.New()
	if fd := m.Descriptor().Fields().ByName("namespace"); fd != nil {
		m.Set(fd, protoreflect.ValueOfString("web"))
	}
	return m.Interface()
}

func samplePolicies() *quoratev1.LoadPoliciesRequest {
	return &quoratev1.LoadPoliciesRequest{AppId: "cv", Realm: "project:infra", Config: &quoratev1.PolicyConfig{
		Policies: []*quoratev1.PolicyEntry{{Key: &quoratev1.PolicyKey{Name: "p", ResourceType: "builds"}, Policy: &quoratev1.Policy{Limit: 1}}},
	}}
}

func outputOf(t testing.TB, method string) proto.Message {
	t.Helper()
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")))
	if err != nil {
		t.Fatal(err)
	}
	mt, err := protoregistry.GlobalTypes.FindMessageByName(d.(protoreflect.MethodDescriptor).Output().FullName())
	if err != nil {
		t.Fatal(err)
	}
	return mt.New().Interface()
}

// may reports whether a role should be let in.
func may(role string, r auth.Rule) bool {
	switch {
	case r.Need == auth.Open:
		return true
	case role == nobodyAtAll:
		return false
	case r.Need == auth.Known:
		return true
	}
	def, ok := rbac.FindRole(role)
	return ok && def.Permissions.Has(r.Permission)
}

// TestMatrix calls every method with every role over gRPC, and checks that exactly the permitted
// callers are let in, whatever the call then returns.
func TestMatrix(t *testing.T) {
	roles := everyRole()
	s := newSecured(t, roles)
	conn := s.dial(t)
	for method, stream := range grpcMethods(t, s) {
		rule, _ := auth.RuleOf(method)
		for _, role := range append(slices.Sorted(maps.Keys(roles)), nobodyAtAll) {
			err := s.try(t, conn, role, method, stream)
			code := status.Code(err)
			refused := code == codes.PermissionDenied || code == codes.Unauthenticated
			if want := may(role, rule); refused == want {
				t.Errorf("%q calls %s: %v; should be let in: %v", role, method, err, want)
				continue
			}
			if refused {
				namesWhatIsMissing(t, err, role, rule)
			}
		}
	}
}

// namesWhatIsMissing checks that the error of a known caller names permission and identity in its
// details and in its text.
func namesWhatIsMissing(t *testing.T, err error, role string, rule auth.Rule) {
	t.Helper()
	st := status.Convert(err)
	if role == nobodyAtAll {
		if st.Code() != codes.Unauthenticated && rule.Need != auth.Inside {
			t.Errorf("nobody got %v", err)
		}
		return
	}
	who := "token:" + role
	var info *errdetails.ErrorInfo
	for _, d := range st.Details() {
		info, _ = d.(*errdetails.ErrorInfo)
	}
	if info.GetReason() != "PERMISSION_DENIED" || info.GetMetadata()["identity"] != who || info.GetMetadata()["permission"] != rule.Permission.String() ||
		!strings.Contains(st.Message(), who) || !strings.Contains(st.Message(), rule.Permission.String()) {
		t.Errorf("the error does not name %s and %v: %v %v", who, rule.Permission, err, info)
	}
}

// TestMatrixOverHTTP does the same with every route and with the mounted handlers.
func TestMatrixOverHTTP(t *testing.T) {
	roles := everyRole()
	s := newSecured(t, roles)
	srv := New(api.New(s, s.opts), s.web)
	routes := newRouter(api.New(s, s.opts), s.web).routes()
	routes = append(routes, route{method: "GET", path: "/api"}, route{method: "GET", path: "/api/stats/web"})
	for _, r := range routes {
		name := r.name()
		if r.rpc == "" && strings.HasPrefix(r.path, "/api") {
			name = strings.TrimSuffix(r.path, "/web")
		}
		rule, _ := auth.RuleOf(name)
		if rule.Need == auth.Inside || r.path == "/v1/events" || r.path == "/v1/rates/watch" { // these have their own tests
			continue
		}
		for _, role := range append(slices.Sorted(maps.Keys(roles)), nobodyAtAll) {
			path := strings.NewReplacer("{namespace}", "web", "{limit}", "login").Replace(r.path)
			if r.in == fromQuery && r.req != nil && r.req.ProtoReflect().Descriptor().Fields().ByName("namespace") != nil && r.path != limitPath {
				path += "?namespace=web"
			}
			w := s.do(srv.Handler, role, r.method, path, bodyOf(t, &r))
			refused := w.Code == http.StatusForbidden || w.Code == http.StatusUnauthorized
			if want := may(role, rule); refused == want {
				t.Errorf("%q: %s %s: %d %s; should be let in: %v", role, r.method, path, w.Code, w.Body, want)
			}
			if w.Code == http.StatusForbidden && (!strings.Contains(w.Body.String(), `"permission":"`+rule.Permission.String()+`"`) || !strings.Contains(w.Body.String(), `"identity":"token:`+role+`"`)) {
				t.Errorf("%s: the problem does not say who lacks what: %s", path, w.Body)
			}
			if (w.Code == http.StatusUnauthorized) != (w.Header().Get("WWW-Authenticate") != "") {
				t.Errorf("%s: %v", path, w.Header())
			}
			if (w.Code == http.StatusUnauthorized) != strings.Contains(w.Body.String(), `"help":"give a credential: the header \"authorization: Bearer TOKEN\"`) {
				t.Errorf("%s: %d; only who has no credential is told how to give one: %s", path, w.Code, w.Body)
			}
			if (w.Code == http.StatusForbidden) != strings.Contains(w.Body.String(), "quorate roles bind token:"+role+" ROLE") {
				t.Errorf("%s: %d; help must say how to get a missing permission, and only then: %s", path, w.Code, w.Body)
			}
		}
	}
	for _, path := range []string{"/api//stats/web", "/api/stats/../", "/api/./stats"} {
		if w := s.do(srv.Handler, "admin", "GET", path, ""); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d; what it leads to depends on who reads it", path, w.Code)
		}
	}
}

func bodyOf(t *testing.T, r *route) string {
	switch {
	case r.in == fromFile:
		return "web/login 1/s 1"
	case r.method != "POST" && r.in != fromJSON:
		return ""
	}
	return string(apijson.Format(sample(t, r.name())))
}

// TestScopes makes the same calls in the namespace of a permission and in another namespace, on
// both wires.
func TestScopes(t *testing.T) {
	s := newSecured(t, map[string]rbac.Binding{
		"in":  {Permissions: []string{"check", "report", "limits.read", "limits.write", "keys.read", "keys.reset", "rates.read", "events.read"}, Scope: rbac.Namespace("web")},
		"out": {Permissions: []string{"check", "report", "limits.read", "limits.write", "keys.read", "keys.reset", "rates.read", "events.read"}, Scope: rbac.Namespace("other")},
	})
	conn, srv := s.dial(t), New(api.New(s, s.opts), s.web)
	found := 0
	for method, stream := range grpcMethods(t, s) {
		rule, _ := auth.RuleOf(method)
		if rule.Scopes == nil || strings.Contains(method, "Account") || strings.Contains(method, "gubernator") { // accounts and gubernator have namespaces of their own
			continue
		}
		found++
		if code := status.Code(s.try(t, conn, "in", method, stream)); code == codes.PermissionDenied {
			t.Errorf("%s is denied in the caller's own namespace", method)
		}
		err := s.try(t, conn, "out", method, stream)
		if !strings.Contains(fmt.Sprint(err), `in namespace "web"`) || status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v; want that it is denied in web", method, err)
		}
	}
	if found < 12 {
		t.Errorf("only %d calls have a scope", found)
	}
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/allow", `{"namespace":"web","limit":"per_client","key":"k"}`},
		{"POST", "/v1/allow:batch", `{"checks":[{"namespace":"web","limit":"per_client","key":"k"}]}`},
		{"POST", "/v1/allow:all", `{"checks":[{"namespace":"web","limit":"per_client","key":"k"}]}`},
		{"POST", "/v1/refund", `{"namespace":"web","limit":"per_client","key":"k"}`},
		{"DELETE", "/v1/limits/web/login", ""},
		{"DELETE", "/v1/overrides?namespace=web&limit=login&key=k", ""},
		{"GET", "/v1/overrides?namespace=web", ""},
		{"GET", "/v1/keys?namespace=web&limit=login&key=k", ""},
		{"GET", "/v1/rates?namespace=web", ""},
		{"GET", "/v1/rates", ""},
		{"GET", "/v1/rates/watch?namespace=web", ""},
		{"GET", "/v1/history?namespace=web&limit=login", ""},
		{"GET", "/v1/history/limits", ""},
		{"GET", "/v1/plan/headroom?namespace=web", ""},
		{"GET", "/v1/plan/report", ""},
		{"GET", "/v1/events", ""},
		{"GET", "/v1/events?namespace=web", ""},
	} {
		if w := s.do(srv.Handler, "out", c.method, c.path, c.body); w.Code != http.StatusForbidden {
			t.Errorf("%s %s: %d %s; want 403", c.method, c.path, w.Code, w.Body)
		}
	}
}

// TestScopeOfPath checks that a check by method and path that names no namespace is authorized in the
// namespace that decides it, in every form of the call.
func TestScopeOfPath(t *testing.T) {
	s := newSecured(t, map[string]rbac.Binding{
		"in":  {Permissions: []string{"check", "report"}, Scope: rbac.Namespace("slas")},
		"out": {Permissions: []string{"check", "report"}, Scope: rbac.Namespace("web")},
	})
	s.With(t, "slas/all 100/s 100 get=/**")
	srv, conn := New(api.New(s, s.opts), s.web), s.dial(t)
	client := quoratev1.NewQuotaServiceClient(conn)
	for who, allowed := range map[string]bool{"in": true, "out": false} {
		for path, body := range map[string]string{
			"/v1/allow":       `{"method":"GET","path":"/p"}`,
			"/v1/allow:batch": `{"checks":[{"method":"GET","path":"/p"}]}`,
			"/v1/allow:all":   `{"checks":[{"method":"GET","path":"/p"}]}`,
		} {
			if w := s.do(srv.Handler, who, "POST", path, body); (w.Code == http.StatusOK) != allowed || !allowed && w.Code != http.StatusForbidden {
				t.Errorf("%s, %s: %d %s", who, path, w.Code, w.Body)
			}
		}
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+s.tokens[who])
		check := &quoratev1.AllowRequest{Method: "GET", Path: "/p"}
		_, one := client.Allow(ctx, check)
		_, batch := client.AllowBatch(ctx, &quoratev1.AllowBatchRequest{Checks: []*quoratev1.AllowRequest{check}})
		_, all := client.AllowAll(ctx, &quoratev1.AllowAllRequest{Checks: []*quoratev1.AllowRequest{check}})
		_, reserved := client.Reserve(ctx, &quoratev1.ReserveRequest{Checks: []*quoratev1.AllowRequest{check}})
		stream, err := client.AllowStream(ctx)
		if err == nil {
			_ = stream.Send(check) // Recv returns the error
			_, err = stream.Recv()
		}
		for i, err := range []error{one, batch, all, reserved, err} {
			if (err == nil) != allowed || !allowed && status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s, call %d: %v", who, i, err)
			}
		}
	}
}

// TestLimitsPerNamespace checks that a writer of one namespace changes only that namespace, by any
// call, and reads no other.
func TestLimitsPerNamespace(t *testing.T) {
	s := newSecured(t, map[string]rbac.Binding{
		"web": {Role: "limit-writer", Scope: rbac.Namespace("web")},
		"all": {Role: "limit-writer", Scope: rbac.Everywhere},
	})
	s.With(t, "api/x 1/s 1", "web/a 1/s 1", "web/b 1/s 1")
	c := quoratev1.NewLimitServiceClient(s.dial(t))
	as := func(who string) context.Context { return s.as(t.Context(), who) }
	apply := func(file string, dry bool) error {
		_, err := c.ApplyLimits(as("web"), &quoratev1.ApplyLimitsRequest{Yaml: file, DryRun: dry})
		return err
	}
	denied := func(what string, err error) {
		t.Helper()
		if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), `"token:web" needs limits.write in namespace "api"`) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := apply("api/x 1/s 1\nweb/a 2/s 2\nweb/c 1/s 1", false); err != nil || s.Active.Version != 8 {
		t.Fatalf("its own: %v, version %d", err, s.Active.Version)
	}
	if v := s.Versions[0]; v.By != "token:web" {
		t.Errorf("the history names %q", v.By)
	}
	err := apply("api/x 9/s 9\nweb/a 2/s 2\nweb/c 1/s 1", false)
	denied("another's changed", err)
	if !strings.Contains(err.Error(), "the call would change limit api/x") {
		t.Error(err)
	}
	denied("another's changed, dry", apply("api/x 9/s 9\nweb/a 2/s 2", true))
	denied("another's added", apply("api/x 1/s 1\napi/y 1/s 1\nweb/a 2/s 2", false))
	err = apply("api/y 1/s 1\nweb/a 2/s 2", false)
	denied("another's replaced", err)
	if strings.Contains(err.Error(), "api/x") {
		t.Errorf("names a limit that the caller may not read: %v", err)
	}
	_, err = c.DeleteLimits(as("web"), &quoratev1.DeleteLimitsRequest{Limits: []*quoratev1.LimitRef{{Namespace: "web", Limit: "a"}, {Namespace: "api", Limit: "x"}}})
	denied("another's deleted", err)
	if _, err = c.ApplyLimits(as("all"), &quoratev1.ApplyLimitsRequest{Yaml: "api/x 5/s 5\nweb/a 2/s 2\nweb/c 1/s 1"}); err != nil {
		t.Fatal(err)
	}
	if _, err = c.RollbackLimits(as("all"), &quoratev1.RollbackLimitsRequest{Version: 8}); err != nil {
		t.Error(err)
	}
	// A change by somebody else between the comparison and the commit is not undone.
	s.Rivals = 1
	if err := apply("api/x 1/s 1\nweb/a 3/s 3", false); status.Code(err) != codes.Aborted {
		t.Errorf("a rival was quicker: %v", err)
	}
	got, err := c.GetLimits(as("web"), &quoratev1.GetLimitsRequest{File: true})
	if err != nil || strings.Contains(got.String(), "api") || !strings.Contains(got.Yaml, "web/a") {
		t.Errorf("reads %v, %v", got, err)
	}
	diff, err := c.DiffLimits(as("web"), &quoratev1.DiffLimitsRequest{From: &quoratev1.LimitSet{Version: proto.Uint64(7)}, To: &quoratev1.LimitSet{Yaml: "api/z 1/s 1\nweb/a 9/s 9"}})
	if err != nil || strings.Contains(diff.String(), "api") || len(diff.Changes) == 0 {
		t.Errorf("compares %v, %v", diff, err)
	}
}

// TestBadCredentials checks that a bad credential is never treated as no credential, even for calls
// that need none.
func TestBadCredentials(t *testing.T) {
	s := newSecured(t, everyRole())
	s.table, _ = s.table.Apply(setBindingChange(&rbac.Binding{Identity: rbac.Anybody, Role: "checker"}))
	c := quoratev1.NewQuotaServiceClient(s.dial(t))
	srv := New(api.New(s, s.opts), s.web)
	if _, err := c.Allow(t.Context(), &quoratev1.AllowRequest{Namespace: "web", Limit: "per_client", Key: "k"}); err != nil {
		t.Errorf("anybody may: %v", err)
	}
	secret := "quorate1t.0123456789ab.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB"
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+secret)
	_, err := c.Allow(ctx, &quoratev1.AllowRequest{Namespace: "web", Limit: "per_client", Key: "k"})
	if status.Code(err) != codes.Unauthenticated || strings.Contains(err.Error(), "AAAA") || !strings.Contains(err.Error(), "bearer token") {
		t.Errorf("%v", err)
	}
	s.tokens["bad"] = secret
	for _, path := range []string{"/healthz", "/v1/whoami", "/v1/openapi.json", "/metrics", "/api"} {
		w := s.do(srv.Handler, "bad", "GET", path, "")
		if path == "/healthz" || path == "/v1/openapi.json" {
			continue // open to everybody: a probe must not fail because of a header
		}
		if w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), "AAAA") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	// The header in which callers name themselves proves nothing here.
	req := httptest.NewRequest(http.MethodGet, "/v1/whoami", nil)
	req.Header.Set("quorate-user", "client:admin")
	w := httptest.NewRecorder()
	srv.Handler.ServeHTTP(w, req)
	if !strings.Contains(w.Body.String(), `"identity":"anonymous:anonymous"`) {
		t.Error(w.Body)
	}
}
