package rest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// TestHiddenStays checks that limits which a caller may not read are neither removed by a file
// without them nor restored by a rollback, so that the caller can change and apply what it has
// read.
func TestHiddenStays(t *testing.T) {
	s := newSecured(t, map[string]rbac.Binding{
		"web":    {Role: "limit-writer", Scope: rbac.Namespace("web")},
		"reader": {Role: "limit-reader", Scope: rbac.Everywhere},
		"all":    {Role: "limit-writer", Scope: rbac.Everywhere},
	})
	s.With(t, "api/x 1/s 1", "web/a 1/s 1", "web/b 1/s 1")
	c := quoratev1.NewLimitServiceClient(s.dial(t))
	as := func(who string) context.Context { return s.as(t.Context(), who) }
	now := func(what, want string) {
		t.Helper()
		if got := string(apitest.FormatLimits(s.Active.All())); got != want {
			t.Errorf("%s: in force are\n%s", what, got)
		}
	}
	read, err := c.GetLimits(as("web"), &quoratev1.GetLimitsRequest{File: true})
	if err != nil {
		t.Fatal(err)
	}
	file := strings.Replace(read.Yaml, "web/b 1/s 1", "web/c 3/s 3", 1)
	dry, err := c.ApplyLimits(as("web"), &quoratev1.ApplyLimitsRequest{Yaml: file, DryRun: true})
	if err != nil || strings.Contains(dry.String(), "api") || len(dry.Changes) != 2 {
		t.Errorf("dry: %v, %v", dry, err)
	}
	if _, err = c.ApplyLimits(as("web"), &quoratev1.ApplyLimitsRequest{Yaml: file}); err != nil {
		t.Fatal(err)
	}
	now("applied", "api/x 1/s 1\nweb/a 1/s 1\nweb/c 3/s 3\n")
	made := s.Active.Version
	if _, err = c.ApplyLimits(as("all"), &quoratev1.ApplyLimitsRequest{Yaml: "api/x 9/s 9\nweb/a 1/s 1\nweb/c 4/s 4", Comment: "both"}); err != nil {
		t.Fatal(err)
	}
	if _, err = c.RollbackLimits(as("web"), &quoratev1.RollbackLimitsRequest{Version: made}); err != nil {
		t.Fatal(err)
	}
	now("rolled back", "api/x 9/s 9\nweb/a 1/s 1\nweb/c 3/s 3\n")
	if v := s.Versions[0]; v.RollbackTo != 0 {
		t.Errorf("the history says that all of version %d is back", v.RollbackTo)
	}
	// A caller that may read but not write limits must include them unchanged.
	s.table, _ = s.table.Apply(setBindingChange(&rbac.Binding{Identity: "token:web", Role: "limit-reader", Scope: rbac.Everywhere}))
	_, err = c.ApplyLimits(as("web"), &quoratev1.ApplyLimitsRequest{Yaml: "web/a 1/s 1"})
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "the call would change limit api/x") {
		t.Errorf("what it reads is removed: %v", err)
	}
}

// TestVersionsPerNamespace checks that versions show no changes in namespaces that the caller may
// not read.
func TestVersionsPerNamespace(t *testing.T) {
	s := newSecured(t, map[string]rbac.Binding{"web": {Role: "limit-reader", Scope: rbac.Namespace("web")}, "all": {Role: "limit-writer", Scope: rbac.Everywhere}})
	c := quoratev1.NewLimitServiceClient(s.dial(t))
	s.Active = &quota.Limits{}
	for _, change := range []struct{ file, comment string }{{"web/a 1/s 1", "begin"}, {"api/x 1/s 1\nweb/a 1/s 1", "for acme"}, {"web/a 2/s 2\nweb/b 1/s 1", "more"}} {
		if _, err := c.ApplyLimits(s.as(t.Context(), "all"), &quoratev1.ApplyLimitsRequest{Yaml: change.file, Comment: change.comment}); err != nil {
			t.Fatal(err)
		}
	}
	res, err := c.ListVersions(s.as(t.Context(), "web"), &quoratev1.ListVersionsRequest{})
	if err != nil || len(res.Versions) < 3 { // the fake has one more
		t.Fatalf("%v, %v", res, err)
	}
	for i, want := range []string{"3 token:all more: 2, +1 ~1 -0", "2  : 1, +0 ~0 -0", "1 token:all begin: 1, +1 ~0 -0"} {
		v := res.Versions[i]
		if got := fmt.Sprintf("%d %s %s: %d, +%d ~%d -%d", v.Version, v.Author, v.Comment, v.Limits, v.Added, v.Changed, v.Removed); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestConflictsPerNamespace checks that the error for a version that the caller did not expect names its author only if the
// version has changes that the caller may read.
func TestConflictsPerNamespace(t *testing.T) {
	s := newSecured(t, map[string]rbac.Binding{"web": {Role: "limit-writer", Scope: rbac.Namespace("web")}, "all": {Role: "limit-writer", Scope: rbac.Everywhere}})
	c := quoratev1.NewLimitServiceClient(s.dial(t))
	s.Active = &quota.Limits{}
	apply := func(who, file string) error {
		version := s.Active.Version
		_, err := c.ApplyLimits(s.as(t.Context(), who), &quoratev1.ApplyLimitsRequest{Yaml: file, ExpectedVersion: &version})
		return err
	}
	for _, step := range []struct {
		file  string
		named bool
	}{{"web/a 1/s 1", true}, {"api/x 1/s 1\nweb/a 1/s 1", false}} {
		if err := apply("all", step.file); err != nil {
			t.Fatal(err)
		}
		none := uint64(0)
		_, err := c.DeleteLimits(s.as(t.Context(), "web"), &quoratev1.DeleteLimitsRequest{
			Limits: []*quoratev1.LimitRef{{Namespace: "web", Limit: "a"}}, ExpectedVersion: &none,
		})
		if status.Code(err) != codes.Aborted || strings.Contains(err.Error(), "(by token:all)") != step.named {
			t.Errorf("%q: %v; want a conflict that names its author: %v", step.file, err, step.named)
		}
	}
	s.Rivals = 1 // a version without a change to web
	if err := apply("web", "web/a 2/s 2"); status.Code(err) != codes.Aborted || strings.Contains(err.Error(), "rival") {
		t.Errorf("a concurrent change: %v; want a conflict that names nobody", err)
	}
	s.Rivals = 1
	if err := apply("all", "web/a 2/s 2"); status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), "(by rival)") {
		t.Errorf("a concurrent change: %v; want a conflict that names rival", err)
	}
}

// TestGlobalKeys checks that a permission in one namespace does not allow a caller to read or reset
// a key of the global default, which counts all namespaces together.
func TestGlobalKeys(t *testing.T) {
	s := newSecured(t, map[string]rbac.Binding{"web": {Role: "limit-writer", Scope: rbac.Namespace("web")}, "all": {Role: "limit-writer", Scope: rbac.Everywhere}})
	set, err := quota.NewLimits(8, []quota.Limit{{LimitName: quota.Global, Rate: quota.Rate{Tokens: 1, Per: 1e9}, Burst: 1}})
	if err != nil {
		t.Fatal(err)
	}
	s.Active = set
	srv := New(api.New(s, s.opts), s.web)
	for _, c := range []struct{ method, path, body, permission string }{
		{"GET", "/v1/keys?namespace=web&limit=a&key=k", "", "keys.read"},
		{"POST", "/v1/keys:reset", `{"namespace":"web","limit":"a","key":"k"}`, "keys.reset"},
	} {
		w := s.do(srv.Handler, "web", c.method, c.path, c.body)
		if want := c.permission + ` in namespace \"@global\"; web/a does not exist, so the default of all namespaces counts it`; w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s %s: %d %s; want %s", c.method, c.path, w.Code, w.Body, want)
		}
		if w := s.do(srv.Handler, "all", c.method, c.path, c.body); w.Code != http.StatusOK {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
	}
}

// TestMissingPerNamespace checks that the error for a missing limit names no namespaces of others.
func TestMissingPerNamespace(t *testing.T) {
	s := newSecured(t, map[string]rbac.Binding{"new": {Role: "limit-writer", Scope: rbac.Namespace("new")}, "check": {Role: "checker", Scope: rbac.Namespace("new")}})
	s.With(t, "hidden/x 1/s 1")
	srv := New(api.New(s, s.opts), s.web)
	for _, c := range []struct{ who, method, path, body string }{
		{"check", "POST", "/v1/allow", `{"namespace":"new","limit":"a","key":"k"}`},
		{"check", "POST", "/v1/allow:all", `{"checks":[{"namespace":"new","limit":"a","key":"k"}]}`},
		{"new", "GET", "/v1/keys?namespace=new&limit=a&key=k", ""},
		{"new", "DELETE", "/v1/limits/new/a", ""},
		{"new", "PUT", "/v1/overrides", `{"overrides":[{"namespace":"new","limit":"a","key":"k","burst":3}]}`},
	} {
		w := s.do(srv.Handler, c.who, c.method, c.path, c.body)
		if w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "hidden") || !strings.Contains(w.Body.String(), `namespace \"new\" has no limits`) {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
	}
}
