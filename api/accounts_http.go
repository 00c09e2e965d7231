package api

import (
	"net/http"
	"strings"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// accountRoutes are those of durable quotas.
func (r *router) accountRoutes() []route {
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	return []route{
		ordinary(post, "/v1/accounts:apply", "AccountService.ApplyOps", fromJSON, r.applyOps),
		ordinary(post, "/v1/accounts:get", "AccountService.GetAccounts", fromJSON, r.getAccounts),
		ordinary(post, "/v1/policies:load", "AccountService.LoadPolicies", fromJSON, r.loadPolicies),
		ordinary(get, "/v1/admin/accounts", "AccountAdminService.ListAccounts", fromQuery, r.listAccounts),
		ordinary(post, "/v1/admin/accounts:get", "AccountAdminService.GetAccounts", fromJSON, r.adminGetAccounts),
		ordinary(post, "/v1/admin/accounts:apply", "AccountAdminService.ApplyOps", fromJSON, r.adminApplyOps),
		{method: get, path: "/v1/admin/accounts:history", rpc: "AccountAdminService.GetAccountHistory", req: &quoratev1.AccountID{}, res: &quoratev1.GetAccountHistoryResponse{}, serve: r.getAccountHistory},
		ordinary(get, "/v1/admin/policies", "AccountAdminService.ListPolicies", fromQuery, r.listPolicies),
		ordinary(put, "/v1/admin/policies", "AccountAdminService.WritePolicies", fromJSON, r.writePolicies),
		{method: get, path: "/v1/admin/policies:get", rpc: "AccountAdminService.GetPolicies", req: &quoratev1.PolicyConfigID{}, res: &quoratev1.GetPoliciesResponse{}, serve: r.getPolicyConfig},
		{method: del, path: "/v1/admin/policies", rpc: "AccountAdminService.PurgePolicies", req: &quoratev1.PolicyConfigID{}, res: &quoratev1.PurgePoliciesResponse{}, serve: r.deletePolicyConfig},
	}
}

func (r *router) getAccountHistory(w http.ResponseWriter, req *http.Request) int {
	id := &quoratev1.AccountID{}
	if f := readQuery(req, id); f != nil {
		return writeFault(w, f)
	}
	res, f := r.accountHistory(authorContext(req), &quoratev1.GetAccountHistoryRequest{AccountId: id})
	if f != nil {
		return writeFault(w, within(f, "account_id"))
	}
	return writeJSON(w, http.StatusOK, FormatJSON(res))
}

func (r *router) getPolicyConfig(w http.ResponseWriter, req *http.Request) int {
	id := &quoratev1.PolicyConfigID{}
	if f := readQuery(req, id); f != nil {
		return writeFault(w, f)
	}
	res, f := r.getPolicies(authorContext(req), &quoratev1.GetPoliciesRequest{Id: id})
	if f != nil {
		return writeFault(w, within(f, "id"))
	}
	return writeJSON(w, http.StatusOK, FormatJSON(res))
}

func (r *router) deletePolicyConfig(w http.ResponseWriter, req *http.Request) int {
	id := &quoratev1.PolicyConfigID{}
	if f := readQuery(req, id); f != nil {
		return writeFault(w, f)
	}
	res, f := r.purgePolicies(authorContext(req), &quoratev1.PurgePoliciesRequest{Id: id})
	if f != nil {
		return writeFault(w, within(f, "id"))
	}
	return writeJSON(w, http.StatusOK, FormatJSON(res))
}

// within names a fault's field as the query has it, where the query is one field
// of the call.
func within(f *fault, field string) *fault {
	if f.field == field {
		f.field = ""
	}
	f.field = strings.TrimPrefix(f.field, field+".")
	return f
}
