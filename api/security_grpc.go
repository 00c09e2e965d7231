package api

import (
	"context"
	"net/http"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

type securityServer struct {
	quoratev1.UnimplementedSecurityServiceServer
	*service
}

func (s *securityServer) WhoAmI(ctx context.Context, req *quoratev1.WhoAmIRequest) (*quoratev1.WhoAmIResponse, error) {
	return reply(s.whoAmI(ctx, req))
}

func (s *securityServer) ListRoles(ctx context.Context, req *quoratev1.ListRolesRequest) (*quoratev1.ListRolesResponse, error) {
	return reply(s.listRoles(ctx, req))
}

func (s *securityServer) SetBinding(ctx context.Context, req *quoratev1.SetBindingRequest) (*quoratev1.SetBindingResponse, error) {
	return reply(s.setBinding(ctx, req))
}

func (s *securityServer) DeleteBinding(ctx context.Context, req *quoratev1.DeleteBindingRequest) (*quoratev1.DeleteBindingResponse, error) {
	return reply(s.deleteBinding(ctx, req))
}

func (s *securityServer) ListBindings(ctx context.Context, req *quoratev1.ListBindingsRequest) (*quoratev1.ListBindingsResponse, error) {
	return reply(s.listBindings(ctx, req))
}

func (s *securityServer) CreateToken(ctx context.Context, req *quoratev1.CreateTokenRequest) (*quoratev1.CreateTokenResponse, error) {
	return reply(s.createToken(ctx, req))
}

func (s *securityServer) ListTokens(ctx context.Context, req *quoratev1.ListTokensRequest) (*quoratev1.ListTokensResponse, error) {
	return reply(s.listTokens(ctx, req))
}

func (s *securityServer) RevokeToken(ctx context.Context, req *quoratev1.RevokeTokenRequest) (*quoratev1.RevokeTokenResponse, error) {
	return reply(s.revokeToken(ctx, req))
}

// securityRoutes are those of who may do what.
func (r *router) securityRoutes() []route {
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	return []route{
		ordinary(get, "/v1/whoami", "SecurityService.WhoAmI", fromQuery, r.whoAmI),
		ordinary(get, "/v1/roles", "SecurityService.ListRoles", fromQuery, r.listRoles),
		ordinary(put, "/v1/bindings", "SecurityService.SetBinding", fromJSON, r.setBinding),
		ordinary(del, "/v1/bindings", "SecurityService.DeleteBinding", fromQuery, r.deleteBinding),
		ordinary(get, "/v1/bindings", "SecurityService.ListBindings", fromQuery, r.listBindings),
		ordinary(post, "/v1/tokens", "SecurityService.CreateToken", fromJSON, r.createToken),
		ordinary(get, "/v1/tokens", "SecurityService.ListTokens", fromQuery, r.listTokens),
		ordinary(del, "/v1/tokens", "SecurityService.RevokeToken", fromQuery, r.revokeToken),
	}
}
