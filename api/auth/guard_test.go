package auth

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// world holds a guard with its clock, and the state that the cluster keeps.
type world struct {
	*Guard
	now   time.Time
	table *rbac.Table
	asked int // how often certificates were looked at
	cert  func() (pki.Identity, bool, error)
}

func newWorld(t testing.TB, c Config) *world {
	t.Helper()
	w := &world{now: time.Unix(1_800_000_000, 0), table: &rbac.Table{}}
	w.cert = func() (pki.Identity, bool, error) {
		return pki.Identity{Cluster: "c", Kind: pki.Client, Name: "ci"}, true, nil
	}
	c.Table = func() *rbac.Table { return w.table }
	c.Now = func() time.Time { return w.now }
	if c.Certificate == nil {
		c.Certificate = func(tls.ConnectionState) (pki.Identity, bool, error) { w.asked++; return w.cert() }
	}
	var err error
	if w.Guard, err = New(c); err != nil {
		t.Fatal(err)
	}
	return w
}

// token adds a token and returns its text.
func (w *world) token(t testing.TB, name string, expires time.Time) (text, id string) {
	t.Helper()
	text, id, hash := pki.NewBearer()
	tok := rbac.Token{ID: id, Name: name, Hash: hash}
	if !expires.IsZero() {
		tok.Expires = quota.Time(expires.UnixNano())
	}
	s := w.table.Encode()
	if s == nil {
		s = (&rbac.Table{}).Encode()
	}
	table, res := w.table.Apply(addToken(&tok))
	if res.Err != nil {
		t.Fatal(res.Err, s)
	}
	w.table = table
	return text, id
}

func TestTokens(t *testing.T) {
	w := newWorld(t, Config{})
	text, id := w.token(t, "ci", w.now.Add(time.Hour))
	c, err := w.Quick(nil, []string{"Bearer " + text})
	if err != nil || c.Identity != "token:ci" || c.Credential != Token || c.Serial != id {
		t.Fatalf("%+v %v", c, err)
	}
	if c, err := w.Quick(nil, []string{"bearer  " + text}); err != nil || c.Identity != "token:ci" {
		t.Errorf("the scheme has no case: %v", err)
	}
	other, _, _ := pki.NewBearer()
	forged := strings.Join([]string{"quorate1t", id, strings.Split(other, ".")[2]}, ".")
	join := "quorate1." + strings.TrimPrefix(text, "quorate1t.")
	for name, c := range map[string]struct {
		headers []string
		want    string
	}{
		"another secret":  {[]string{"Bearer " + forged}, "the bearer token is not known; it may have been revoked"},
		"another id":      {[]string{"Bearer " + other}, "the bearer token is not known; it may have been revoked"},
		"truncated":       {[]string{"Bearer " + text[:len(text)-5]}, "is the token complete?"},
		"no scheme":       {[]string{text}, "must be Bearer, a space, and a token"},
		"another scheme":  {[]string{"Basic " + text}, "must be Bearer, a space, and a token"},
		"nothing":         {[]string{"Bearer"}, "must be Bearer, a space, and a token"},
		"empty":           {[]string{""}, "must be Bearer, a space, and a token"},
		"twice":           {[]string{"Bearer " + text, "Bearer " + text}, "was sent 2 times"},
		"a join token":    {[]string{"Bearer " + join}, "this is a join token"},
		"a JWT":           {[]string{"Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0."}, "this node accepts no JWTs"},
		"something else":  {[]string{"Bearer swordfish-swordfish"}, "this node accepts no JWTs"},
		"of zero secrets": {[]string{"Bearer quorate1t.000000000000.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}, "not known"},
	} {
		t.Run(name, func(t *testing.T) {
			// A certificate does not help: a credential that is present must be valid.
			got, err := w.Quick(state(), c.headers)
			refused(t, got, err, c.want, text, forged, "swordfish", "eyJzdWIiOiJhIn0")
		})
	}
	w.now = w.now.Add(time.Hour)
	c, err = w.Quick(nil, []string{"Bearer " + text})
	refused(t, c, err, "the bearer token of token:ci expired at 2027-01-15T09:00:00Z", text)
	c, err = w.Quick(nil, []string{"Bearer " + forged})
	refused(t, c, err, "not known", text) // a caller without the secret learns nothing of the token
}

func refused(t *testing.T, c *Caller, err error, want string, secrets ...string) {
	t.Helper()
	bad, ok := errors.AsType[*CredentialError](err)
	if c != nil || !ok || !strings.Contains(bad.Error(), want) {
		t.Errorf("%+v, %v; want %q", c, err, want)
		return
	}
	for _, s := range secrets {
		for part := range strings.SplitSeq(s, ".") {
			if len(part) > 12 && strings.Contains(err.Error(), part) {
				t.Errorf("the error has a part of a secret: %v", err)
			}
		}
	}
}

func state() *tls.ConnectionState {
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
}

// TestLongestNames checks that names as long as new certificates may have (pki.Identity.CheckNew) are accepted, and that no
// longer ones are.
func TestLongestNames(t *testing.T) {
	w := newWorld(t, Config{})
	for _, kind := range []pki.Kind{pki.Client, pki.Node} {
		for n := 100; n <= quota.MaxNameLen; n++ {
			id := pki.Identity{Cluster: "c", Kind: kind, Name: strings.Repeat("x", n)}
			w.cert = func() (pki.Identity, bool, error) { return id, true, nil }
			if _, err := w.Quick(state(), nil); (err == nil) != (id.CheckNew() == nil) {
				t.Errorf("%v of %d bytes: a call %v, a new certificate %v", kind, n, err, id.CheckNew())
			}
		}
	}
}

func TestCertificates(t *testing.T) {
	w := newWorld(t, Config{})
	s := state()
	for want, id := range map[string]pki.Identity{
		"client:ci": {Cluster: "c", Kind: pki.Client, Name: "ci"},
		"node:n1":   {Cluster: "c", Kind: pki.Node, Name: "n1"},
		"spiffe://corp.example/ns/prod/sa/billing": {Kind: pki.Client, Name: "spiffe://corp.example/ns/prod/sa/billing"},
		"dns:billing.corp.example":                 {Kind: pki.Client, Name: "dns:billing.corp.example"},
	} {
		w.cert = func() (pki.Identity, bool, error) { return id, true, nil }
		if c, err := w.Quick(state(), nil); err != nil || c.Identity != want || c.Credential != Certificate {
			t.Errorf("%v: %+v %v", id, c, err)
		}
	}
	// The credential of a call takes precedence over the connection's.
	text, _ := w.token(t, "ci", time.Time{})
	if c, err := w.Quick(s, []string{"Bearer " + text}); err != nil || c.Identity != "token:ci" {
		t.Errorf("%+v %v", c, err)
	}
	// The certificate of a connection is checked again after a while.
	first := w.asked
	for range 5 {
		_, _ = w.Quick(s, nil)
	}
	if w.asked != first+1 {
		t.Errorf("asked %d times for one connection", w.asked-first)
	}
	w.cert = func() (pki.Identity, bool, error) { return pki.Identity{}, false, errors.New("has expired") }
	if _, err := w.Quick(s, nil); err != nil {
		t.Errorf("at once: %v", err)
	}
	w.now = w.now.Add(certCacheTTL)
	c, err := w.Quick(s, nil)
	refused(t, c, err, "client certificate: has expired")
	w.cert = func() (pki.Identity, bool, error) {
		return pki.Identity{Kind: pki.Client, Name: "spiffe://" + strings.Repeat("x", 200)}, true, nil
	}
	c, err = w.Quick(state(), nil)
	refused(t, c, err, "identity: is 209 bytes; must be 1 to 128")
}

// TestRemembered checks that a new certificate in a full memory replaces one other, and not all.
func TestRemembered(t *testing.T) {
	w := newWorld(t, Config{})
	var all []*tls.ConnectionState
	for range maxRemembered + 10 {
		all = append(all, state())
		_, _ = w.Quick(all[len(all)-1], nil)
	}
	w.cert = func() (pki.Identity, bool, error) { return pki.Identity{}, false, errors.New("asked") }
	remembered := 0
	for _, s := range all {
		if _, err := w.Quick(s, nil); err == nil {
			remembered++
		}
	}
	if remembered != maxRemembered {
		t.Errorf("%d remembered of %d; want %d", remembered, len(all), maxRemembered)
	}
}

func TestNobody(t *testing.T) {
	w := newWorld(t, Config{})
	for _, s := range []*tls.ConnectionState{nil, {}} {
		if c, err := w.Quick(s, nil); err != nil || c.Identity != Anonymous || c.Credential != None {
			t.Errorf("%+v %v", c, err)
		}
	}
}

// TestEnterAndAdmit checks that a caller with a permission nowhere is refused before the request is
// read, that a caller with it somewhere is admitted by the request, and that the error says what is
// missing, where, and to whom.
func TestEnterAndAdmit(t *testing.T) {
	w := newWorld(t, Config{Bindings: []rbac.Binding{
		{Identity: "client:ci", Role: "limit-writer", Scope: rbac.Namespace("web")},
		{Identity: "client:ci", Role: "checker", Scope: rbac.Namespace("web")},
		{Identity: "client:app", Role: "accountant", Scope: rbac.Realm("project:infra")},
	}})
	caller := func(id string) *Caller {
		c, err := newCaller(id, Certificate, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ci, app, admin, none := caller("client:ci"), caller("client:app"), caller("client:admin"), anonymous
	allow := func(ns string) proto.Message { return &quoratev1.AllowRequest{Namespace: ns} }
	for _, c := range []struct {
		who    *Caller
		method string
		req    proto.Message
		want   string // of the error; empty: permitted
	}{
		{ci, "QuotaService/Allow", allow("web"), ""},
		{ci, "QuotaService/Allow", allow("api"), `"client:ci" needs check in namespace "api"`},
		{ci, "QuotaService/Allow", allow(""), `"client:ci" needs check in namespace ""`},
		{ci, "QuotaService/AllowBatch", &quoratev1.AllowBatchRequest{Checks: []*quoratev1.AllowRequest{{Namespace: "web"}, {Namespace: "web"}}}, ""},
		{ci, "QuotaService/AllowBatch", &quoratev1.AllowBatchRequest{Checks: []*quoratev1.AllowRequest{{Namespace: "web"}, {Namespace: "api"}, {Namespace: "web"}}}, `in namespace "api"`},
		{ci, "QuotaService/Refund", &quoratev1.RefundRequest{Namespace: "web"}, `"client:ci" needs report`},
		{ci, "RateService/TopRates", &quoratev1.TopRatesRequest{Namespace: "web"}, ""},
		{ci, "RateService/TopRates", &quoratev1.TopRatesRequest{}, `"client:ci" needs rates.read everywhere; it has it in namespace "web": ask for that one alone`},
		{ci, "OverrideService/SetOverrides", &quoratev1.SetOverridesRequest{Overrides: []*quoratev1.Override{{Namespace: "web"}, {Namespace: "api"}}}, `limits.write in namespace "api"`},
		{ci, "OverrideService/DeleteOverrides", &quoratev1.DeleteOverridesRequest{Keys: []*quoratev1.KeyRef{{Namespace: "web"}}}, ""},
		{ci, "LimitService/ApplyLimits", &quoratev1.ApplyLimitsRequest{}, ""}, // checks again itself
		{ci, "ClusterService/GetStatus", &quoratev1.GetStatusRequest{}, `"client:ci" needs cluster.read everywhere`},
		{ci, "SecurityService/CreateToken", &quoratev1.CreateTokenRequest{}, `needs access.admin everywhere`},
		{ci, "SecurityService/ListRoles", &quoratev1.ListRolesRequest{}, ""},
		{ci, "SecurityService/NoSuchCall", nil, "not allowed for any caller, because the table of permissions does not list it"},
		{app, "AccountService/ApplyOps", &quoratev1.ApplyOpsRequest{Ops: []*quoratev1.Op{{AccountId: &quoratev1.AccountID{Realm: "project:infra"}}}}, ""},
		{app, "AccountService/ApplyOps", &quoratev1.ApplyOpsRequest{Ops: []*quoratev1.Op{{AccountId: &quoratev1.AccountID{Realm: "project:x"}}}}, `accounts.use in realm "project:x"`},
		{app, "AccountService/GetAccounts", &quoratev1.GetAccountsRequest{Accounts: []*quoratev1.AccountID{{Realm: "project:x"}}}, `accounts.use in realm "project:x"`},
		{app, "AccountService/LoadPolicies", &quoratev1.LoadPoliciesRequest{Realm: "project:infra"}, ""},
		{admin, "SecurityService/CreateToken", &quoratev1.CreateTokenRequest{}, ""},
		{admin, "SecurityService/NoSuchCall", nil, "not allowed for any caller"},
		{none, "SecurityService/WhoAmI", &quoratev1.WhoAmIRequest{}, ""},
		{none, "SecurityService/ListRoles", nil, "the call carries no credential; its caller needs a credential for"},
		{none, "QuotaService/Allow", allow("web"), "the call carries no credential; its caller needs check"},
	} {
		method := pkg + c.method
		err := w.AuthorizeCall(c.who, method)
		if err == nil {
			err = w.AuthorizeRequest(c.who, method, c.req)
		}
		if _, ok := errors.AsType[*DeniedError](err); (err == nil) != (c.want == "") || err != nil && (!ok || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %s %v: %v; want %q", c.who.Identity, c.method, c.req, err, c.want)
		}
	}
	// A message of an unexpected type requires the permission everywhere.
	for _, m := range []string{"QuotaService/AllowBatch", "OverrideService/SetOverrides", "OverrideService/DeleteOverrides"} {
		if w.AuthorizeRequest(ci, pkg+m, &quoratev1.WhoAmIRequest{}) == nil {
			t.Errorf("%s takes any message", m)
		}
	}
}

// TestBindingsOfAllPlaces checks the bindings of the settings, of the cluster, and the built-in
// one.
func TestBindingsOfAllPlaces(t *testing.T) {
	w := newWorld(t, Config{Bindings: []rbac.Binding{{Identity: "client:*", Role: "planner"}}})
	w.table, _ = w.table.Apply(setBinding(&rbac.Binding{Identity: "client:admin", Role: "checker"}))
	c, _ := newCaller("client:admin", Certificate, nil)
	var got []string
	for _, b := range w.Bindings(c) {
		got = append(got, b.Identity+" "+b.Role+" "+string(b.In))
	}
	if s := strings.Join(got, ", "); s != "client:admin admin built_in, client:* planner settings, client:admin checker cluster" {
		t.Error(s)
	}
	if _, err := New(Config{Bindings: []rbac.Binding{{Identity: "client:a", Role: "checker"}, {Identity: "ann", Role: "checker"}}}); err == nil || !strings.Contains(err.Error(), `access.bindings[1].identity: "ann"`) {
		t.Errorf("%v", err)
	}
}
