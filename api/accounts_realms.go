package api

import (
	"context"
	"encoding/base64"
	"strings"

	"github.com/quorate/quorate/api/access"
	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/account"
)

// ListRealms implements quoratev1.AccountAdminServiceServer. It skips realms that the caller has no
// permission to list, also in page tokens.
func (s *AccountAdminService) ListRealms(ctx context.Context, req *quoratev1.ListRealmsRequest) (*quoratev1.ListRealmsResponse, error) {
	size, err := accountPage(req.PageSize)
	if err != nil {
		return nil, err
	}
	after, err := parseRealmPage(req.PageToken)
	if err != nil {
		return nil, err
	}
	who, err := s.Identity(ctx)
	if err != nil {
		return nil, err
	}
	out := &quoratev1.ListRealmsResponse{}
	for ask := size; ; ask = maxAccounts {
		realms, err := s.node.ListRealms(ctx, after, ask)
		if err != nil {
			return nil, fromAccounts(err)
		}
		for _, r := range realms {
			after = r
			if shown := s.realmFor(ctx, who, r); shown != nil {
				out.Realms = append(out.Realms, shown)
			}
			if len(out.Realms) == size {
				out.NextPageToken = realmPageToken(r)
				return out, nil
			}
		}
		if len(realms) < ask {
			return out, nil
		}
	}
}

// realmFor returns the summary of a realm for a caller, or nil without permission to list anything in it.
func (s *AccountAdminService) realmFor(ctx context.Context, who string, r account.Realm) *quoratev1.RealmSummary {
	may := func(permission string) bool {
		return access.Check(ctx, s.grants, who, permission, access.Subject{App: r.App, Realm: r.Name}) == nil
	}
	out := &quoratev1.RealmSummary{AppId: r.App, Realm: r.Name}
	if r.Accounts && may(access.AccountsList) {
		out.HasAccounts = true
	}
	if r.Configs > 0 && may(access.PoliciesRead) {
		out.PolicyConfigs = int32(r.Configs)
	}
	if !out.HasAccounts && out.PolicyConfigs == 0 {
		return nil
	}
	return out
}

// realmPageToken returns the token of the page that follows a realm.
func realmPageToken(r account.Realm) string {
	return base64.RawURLEncoding.EncodeToString([]byte(r.App + "~" + r.Name))
}

func parseRealmPage(token string) (account.Realm, error) {
	if token == "" {
		return account.Realm{}, nil
	}
	word, err := base64.RawURLEncoding.DecodeString(token)
	app, realm, _ := strings.Cut(string(word), "~")
	if err != nil || inRealm(app, realm) != nil {
		return account.Realm{}, apierr.Invalid("page_token", "is %q; must be the next_page_token of the previous page", apierr.Clip(token))
	}
	return account.Realm{App: app, Name: realm}, nil
}
