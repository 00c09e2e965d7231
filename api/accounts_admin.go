package api

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/quorate/quorate/api/access"
	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/account"
)

// AccountAdminService reads and changes accounts and policies for people, and checks a permission
// for each.
type AccountAdminService struct {
	quoratev1.UnimplementedAccountAdminServiceServer
	*accountCalls
}

// GetAccounts returns accounts as AccountService.GetAccounts does, and checks a permission for
// each.
func (s *AccountAdminService) GetAccounts(ctx context.Context, req *quoratev1.GetAccountsRequest) (*quoratev1.GetAccountsResponse, error) {
	ids, err := s.accountIDs(req)
	if err != nil {
		return nil, err
	}
	who, err := s.Identity(ctx)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		if err := s.may(ctx, who, access.AccountsRead, fmt.Sprintf("accounts[%d]", i), aboutAccount(who, id)); err != nil {
			return nil, err
		}
	}
	return s.readAccounts(ctx, ids, req.Stale)
}

// GetAccountHistory implements quoratev1.AccountAdminServiceServer.
func (s *AccountAdminService) GetAccountHistory(ctx context.Context, req *quoratev1.GetAccountHistoryRequest) (*quoratev1.GetAccountHistoryResponse, error) {
	id, err := accountID("account_id", req.AccountId)
	if err != nil {
		return nil, err
	}
	who, err := s.Identity(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.may(ctx, who, access.AccountsRead, "account_id", aboutAccount(who, id)); err != nil {
		return nil, err
	}
	state, err := s.node.AccountHistory(ctx, id)
	if err != nil {
		return nil, fromAccounts(err)
	}
	out := &quoratev1.GetAccountHistoryResponse{}
	for i := range state.History {
		out.Changes = append(out.Changes, changeProto(&state.History[i]))
	}
	return out, nil
}

// ListAccounts implements quoratev1.AccountAdminServiceServer.
func (s *AccountAdminService) ListAccounts(ctx context.Context, req *quoratev1.ListAccountsRequest) (*quoratev1.ListAccountsResponse, error) {
	filter, err := accountFilter(req)
	if err != nil {
		return nil, err
	}
	size, err := accountPage(req.PageSize)
	if err != nil {
		return nil, err
	}
	after, err := parsePage(req.PageToken, filter)
	if err != nil {
		return nil, err
	}
	who, err := s.Identity(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.may(ctx, who, access.AccountsList, "", aboutList(filter)); err != nil {
		return nil, err
	}
	states, err := s.node.ListAccounts(ctx, filter, after, size)
	if err != nil {
		return nil, fromAccounts(err)
	}
	out := &quoratev1.ListAccountsResponse{Accounts: statesProto(states)}
	if len(states) == size {
		out.NextPageToken = AccountPageToken(states[size-1].ID)
	}
	return out, nil
}

func accountFilter(req *quoratev1.ListAccountsRequest) (account.Filter, error) {
	f := account.Filter{App: req.AppId, Realm: req.Realm, Identity: req.Identity, Namespace: req.Namespace, NamePrefix: req.NamePrefix, Resource: req.ResourceType}
	return f, inRealm(f.App, f.Realm, atom{"identity", req.GetIdentity()}, atom{"namespace", req.GetNamespace()},
		atom{"name_prefix", f.NamePrefix}, atom{"resource_type", f.Resource})
}

// AccountPageToken returns the token of the page that follows an account: the base64 of id.Word().
func AccountPageToken(id account.ID) string {
	return base64.RawURLEncoding.EncodeToString([]byte(id.Word()))
}

func parsePage(token string, f account.Filter) (account.ID, error) {
	if token == "" {
		return account.ID{}, nil
	}
	word, err := base64.RawURLEncoding.DecodeString(token)
	id, ok := account.ParseWord(string(word))
	if err != nil || !ok || id.App != f.App || id.Realm != f.Realm || id.Validate() != nil {
		return account.ID{}, apierr.Invalid("page_token", "is %q; must be the next_page_token of the previous page, with the same app_id and realm", apierr.Clip(token))
	}
	return id, nil
}

// ApplyOps applies operations as AccountService.ApplyOps does, and checks a permission for each
// account.
func (s *AccountAdminService) ApplyOps(ctx context.Context, req *quoratev1.ApplyOpsRequest) (*quoratev1.ApplyOpsResponse, error) {
	who, ttl, ops, err := s.opsCall(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := s.mayWrite(ctx, who, ops); err != nil {
		return nil, err
	}
	res, err := s.applyChecked(ctx, who, req.RequestId, ttl, ops)
	if err == nil { // account names may be personal data: the histories have them
		s.Log.InfoContext(ctx, "accounts written by hand", "by", who, "request", req.RequestId, "app", ops[0].Account.App, "realm", ops[0].Account.Realm, "ops", len(ops), "applied", res.Applied, "repeated", res.Repeated)
	}
	return res, err
}
