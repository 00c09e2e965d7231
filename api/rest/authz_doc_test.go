package rest

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/internal/golden"
	"github.com/quorate/quorate/internal/rbac"
)

var rewriteDoc = flag.Bool("rewrite", false, "write docs/reference/authorization.md and docs/openapi.json; then read the diff")

// TestAuthorizationDoc compares docs/reference/authorization.md with the table.
func TestAuthorizationDoc(t *testing.T) {
	golden.Hold(t, "../../docs/reference/authorization.md", authorizationDoc(t), *rewriteDoc)
}

func authorizationDoc(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(authorizationHead)
	b.WriteString("\n## Roles\n\n| role | for | permissions |\n|---|---|---|\n")
	for _, r := range rbac.Roles() {
		names := "`" + strings.Join(r.Permissions.Names(), "` `") + "`"
		if r.Name == rbac.Admin {
			names = "all"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Name, r.Summary, names)
	}
	b.WriteString("\n## Calls\n\nA dot means that the role permits the call, in the scope where it is bound.\n\n| call | HTTP | needs | where |")
	for _, r := range rbac.Roles() {
		fmt.Fprintf(&b, " %s |", r.Name)
	}
	b.WriteString("\n|---|---|---|---|" + strings.Repeat(":-:|", len(rbac.Roles())) + "\n")
	paths := map[string][]string{}
	s := newSecured(t, nil)
	for _, r := range newRouter(api.New(s, s.opts), s.web).routes() {
		if r.rpc != "" {
			paths[r.name()] = append(paths[r.name()], r.method+" "+r.path)
		}
	}
	methods := auth.Methods()
	slices.SortFunc(methods, func(a, b string) int { return cmp.Or(cmp.Compare(groupOf(a), groupOf(b)), cmp.Compare(a, b)) })
	for _, m := range methods {
		rule, _ := auth.RuleOf(m)
		call, route := "`"+shortOf(m)+"`", ""
		for i, p := range paths[m] {
			route += strings.Repeat("<br>", min(i, 1)) + "`" + p + "`"
		}
		if groupOf(m) == "~" {
			call, route = "", "`"+strings.TrimPrefix(m, " ")+"`"
		}
		needs, where := needOf(rule)
		fmt.Fprintf(&b, "| %s | %s | %s | %s |", call, route, needs, where)
		for _, r := range rbac.Roles() {
			dot := ""
			if may(r.Name, rule) {
				dot = "•"
			}
			fmt.Fprintf(&b, " %s |", dot)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func groupOf(method string) string {
	service, _, ok := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	if !ok || !strings.Contains(service, ".") {
		return "~"
	}
	return service
}

func shortOf(method string) string {
	m := strings.TrimPrefix(strings.TrimPrefix(method, "/"), "quorate.v1.")
	return strings.Replace(m, "/", ".", 1)
}

func needOf(r auth.Rule) (needs, where string) {
	switch r.Need {
	case auth.Open:
		return "nothing", r.About
	case auth.Known:
		return "a credential", r.About
	}
	where = r.About
	if where == "" {
		where = "everywhere"
	}
	return "`" + r.Permission.String() + "`", where
}

const authorizationHead = `<!-- Written by: go test ./api/rest -run AuthorizationDoc -rewrite. Do not edit. -->

# Permissions of each call

This page lists every call, and the permission that it needs where authentication is on. ` + "`TestMatrix`" + ` of package rest makes each call with
each role. A call without a row is denied to everyone. [security.md](../explanation/security.md) explains how callers are identified and how roles are
bound to them.
`
