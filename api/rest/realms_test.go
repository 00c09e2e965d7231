package rest

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/access"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/account"
)

// TestRealmsShowWhatTheCallerMayList checks that a caller sees the realms, and of a realm the kinds,
// that it may list, and that neither a page nor its token names another realm.
func TestRealmsShowWhatTheCallerMayList(t *testing.T) {
	n := apitest.New(t).WithAccounts()
	for i := range 30 {
		n.Accounts.Configs = append(n.Accounts.Configs, account.Config{ID: account.ConfigID{App: "cv", Realm: fmt.Sprintf("project:%02d", i), Version: "$1"}})
	}
	for _, c := range []struct {
		name  string
		grant []access.Grant
		want  string
	}{
		{"accounts", []access.Grant{grant("project:infra", access.AccountsList)}, "project:infra true 0"},
		{"policies", []access.Grant{grant("project:infra", access.PoliciesRead)}, "project:infra false 1"},
		{"both", []access.Grant{grant("project:infra", access.PoliciesRead, access.AccountsList)}, "project:infra true 1"},
		{"some", []access.Grant{grant("project:07", access.PoliciesRead), grant("project:21", access.PoliciesRead), grant("project:03", access.AccountsList)}, "project:07 false 1, project:21 false 1"},
		{"one namespace", []access.Grant{{Identity: ann, Realm: "project:infra", Permissions: []string{access.AccountsList}, When: map[string]string{access.Namespace: "ci"}}}, ""},
		{"another application", []access.Grant{grant("@internal:other", access.AccountsList)}, ""},
		{"nothing", nil, ""},
	} {
		client := quoratev1.NewAccountAdminServiceClient(dialGRPC(t, n, api.Options{Grants: access.List(c.grant)}))
		ctx := metadata.AppendToOutgoingContext(t.Context(), "quorate-user", ann)
		var got []string
		for req := (&quoratev1.ListRealmsRequest{PageSize: 1}); ; {
			res, err := client.ListRealms(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range res.Realms {
				got = append(got, fmt.Sprintf("%s %v %d", r.Realm, r.HasAccounts, r.PolicyConfigs))
			}
			if req.PageToken = res.NextPageToken; req.PageToken == "" {
				break
			}
			if len(res.Realms) != 1 {
				t.Errorf("%s: a page with a token has %d realms", c.name, len(res.Realms))
			}
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}
