package rest

import "net/http"

// securityRoutes returns the routes of role bindings, tokens and the audit log.
func (r *router) securityRoutes() []route {
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	return []route{
		ordinary(get, "/v1/whoami", "SecurityService.WhoAmI", fromQuery, r.Security.WhoAmI),
		ordinary(get, "/v1/roles", "SecurityService.ListRoles", fromQuery, r.Security.ListRoles),
		ordinary(put, "/v1/bindings", "SecurityService.SetBinding", fromJSON, r.Security.SetBinding),
		ordinary(del, "/v1/bindings", "SecurityService.DeleteBinding", fromQuery, r.Security.DeleteBinding),
		ordinary(get, "/v1/bindings", "SecurityService.ListBindings", fromQuery, r.Security.ListBindings),
		ordinary(post, "/v1/tokens", "SecurityService.CreateToken", fromJSON, r.Security.CreateToken),
		ordinary(get, "/v1/tokens", "SecurityService.ListTokens", fromQuery, r.Security.ListTokens),
		ordinary(del, "/v1/tokens", "SecurityService.RevokeToken", fromQuery, r.Security.RevokeToken),
		ordinary(get, "/v1/audit", "SecurityService.ListAuditEntries", fromQuery, r.Security.ListAuditEntries),
	}
}
