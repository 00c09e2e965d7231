package api

import (
	"context"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

type accountServer struct {
	quoratev1.UnimplementedAccountServiceServer
	*service
}

func (s *accountServer) ApplyOps(ctx context.Context, req *quoratev1.ApplyOpsRequest) (*quoratev1.ApplyOpsResponse, error) {
	return reply(s.applyOps(ctx, req))
}

func (s *accountServer) GetAccounts(ctx context.Context, req *quoratev1.GetAccountsRequest) (*quoratev1.GetAccountsResponse, error) {
	return reply(s.getAccounts(ctx, req))
}

func (s *accountServer) LoadPolicies(ctx context.Context, req *quoratev1.LoadPoliciesRequest) (*quoratev1.LoadPoliciesResponse, error) {
	return reply(s.loadPolicies(ctx, req))
}

type accountAdminServer struct {
	quoratev1.UnimplementedAccountAdminServiceServer
	*service
}

func (s *accountAdminServer) GetAccounts(ctx context.Context, req *quoratev1.GetAccountsRequest) (*quoratev1.GetAccountsResponse, error) {
	return reply(s.adminGetAccounts(ctx, req))
}

func (s *accountAdminServer) ListAccounts(ctx context.Context, req *quoratev1.ListAccountsRequest) (*quoratev1.ListAccountsResponse, error) {
	return reply(s.listAccounts(ctx, req))
}

func (s *accountAdminServer) GetAccountHistory(ctx context.Context, req *quoratev1.GetAccountHistoryRequest) (*quoratev1.GetAccountHistoryResponse, error) {
	return reply(s.accountHistory(ctx, req))
}

func (s *accountAdminServer) ApplyOps(ctx context.Context, req *quoratev1.ApplyOpsRequest) (*quoratev1.ApplyOpsResponse, error) {
	return reply(s.adminApplyOps(ctx, req))
}

func (s *accountAdminServer) WritePolicies(ctx context.Context, req *quoratev1.LoadPoliciesRequest) (*quoratev1.LoadPoliciesResponse, error) {
	return reply(s.writePolicies(ctx, req))
}

func (s *accountAdminServer) GetPolicies(ctx context.Context, req *quoratev1.GetPoliciesRequest) (*quoratev1.GetPoliciesResponse, error) {
	return reply(s.getPolicies(ctx, req))
}

func (s *accountAdminServer) ListPolicies(ctx context.Context, req *quoratev1.ListPoliciesRequest) (*quoratev1.ListPoliciesResponse, error) {
	return reply(s.listPolicies(ctx, req))
}

func (s *accountAdminServer) PurgePolicies(ctx context.Context, req *quoratev1.PurgePoliciesRequest) (*quoratev1.PurgePoliciesResponse, error) {
	return reply(s.purgePolicies(ctx, req))
}
