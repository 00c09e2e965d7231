package rest

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/apijson"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// accountRoutes returns the routes of durable quotas.
func (r *router) accountRoutes() []route {
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	return []route{
		ordinary(post, "/v1/accounts:apply", "AccountService.ApplyOps", fromJSON, r.Accounts.ApplyOps),
		ordinary(post, "/v1/accounts:get", "AccountService.GetAccounts", fromJSON, r.Accounts.GetAccounts),
		ordinary(post, "/v1/policies:load", "AccountService.LoadPolicies", fromJSON, r.Accounts.LoadPolicies),
		ordinary(get, "/v1/admin/realms", "AccountAdminService.ListRealms", fromQuery, r.AccountAdmin.ListRealms),
		ordinary(get, "/v1/admin/accounts", "AccountAdminService.ListAccounts", fromQuery, r.AccountAdmin.ListAccounts),
		ordinary(post, "/v1/admin/accounts:get", "AccountAdminService.GetAccounts", fromJSON, r.AccountAdmin.GetAccounts),
		ordinary(post, "/v1/admin/accounts:apply", "AccountAdminService.ApplyOps", fromJSON, r.AccountAdmin.ApplyOps),
		{method: get, path: "/v1/admin/accounts:history", rpc: "AccountAdminService.GetAccountHistory", req: &quoratev1.AccountID{}, res: &quoratev1.GetAccountHistoryResponse{}, serve: r.getAccountHistory},
		ordinary(get, "/v1/admin/policies", "AccountAdminService.ListPolicies", fromQuery, r.AccountAdmin.ListPolicies),
		ordinary(put, "/v1/admin/policies", "AccountAdminService.WritePolicies", fromJSON, r.AccountAdmin.WritePolicies),
		{method: get, path: "/v1/admin/policies:get", rpc: "AccountAdminService.GetPolicies", req: &quoratev1.PolicyConfigID{}, res: &quoratev1.GetPoliciesResponse{}, serve: r.getPolicyConfig},
		{method: del, path: "/v1/admin/policies", rpc: "AccountAdminService.PurgePolicies", req: &quoratev1.PolicyConfigID{}, res: &quoratev1.PurgePoliciesResponse{}, serve: r.deletePolicyConfig},
	}
}

func (r *router) getAccountHistory(w http.ResponseWriter, req *http.Request) (int, error) {
	return ofID(w, req, &quoratev1.AccountID{}, "account_id", func(ctx context.Context, id *quoratev1.AccountID) (*quoratev1.GetAccountHistoryResponse, error) {
		return r.AccountAdmin.GetAccountHistory(ctx, &quoratev1.GetAccountHistoryRequest{AccountId: id})
	})
}

func (r *router) getPolicyConfig(w http.ResponseWriter, req *http.Request) (int, error) {
	return ofID(w, req, &quoratev1.PolicyConfigID{}, "id", func(ctx context.Context, id *quoratev1.PolicyConfigID) (*quoratev1.GetPoliciesResponse, error) {
		return r.AccountAdmin.GetPolicies(ctx, &quoratev1.GetPoliciesRequest{Id: id})
	})
}

func (r *router) deletePolicyConfig(w http.ResponseWriter, req *http.Request) (int, error) {
	return ofID(w, req, &quoratev1.PolicyConfigID{}, "id", func(ctx context.Context, id *quoratev1.PolicyConfigID) (*quoratev1.PurgePoliciesResponse, error) {
		return r.AccountAdmin.PurgePolicies(ctx, &quoratev1.PurgePoliciesRequest{Id: id})
	})
}

// ofID serves a call whose only field is an id, given by the query.
func ofID[I, R proto.Message](w http.ResponseWriter, req *http.Request, id I, field string, call func(context.Context, I) (R, error)) (int, error) {
	if err := readAuthorized(req, id); err != nil {
		return 0, err
	}
	res, err := call(authorContext(req), id)
	if err != nil {
		return 0, within(err, field)
	}
	api.CallOf(req.Context()).Answered(res)
	return writeJSON(w, http.StatusOK, apijson.Format(res)), nil
}

// within renames an error's field for a query that holds only this field of the call.
func within(err error, field string) error {
	e := *apierr.From(err)
	if e.Field == field {
		e.Field = ""
	}
	e.Field = strings.TrimPrefix(e.Field, field+".")
	return &e
}
