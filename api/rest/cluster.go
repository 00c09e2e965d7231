package rest

import "net/http"

// clusterRoutes returns the routes of cluster membership.
func (r *router) clusterRoutes() []route {
	const get, post, del = http.MethodGet, http.MethodPost, http.MethodDelete
	return []route{
		ordinary(post, "/v1/cluster/join", "ClusterService.Join", fromJSON, r.Cluster.Join),
		ordinary(post, "/v1/cluster/join-tokens", "ClusterService.CreateJoinToken", fromJSON, r.Cluster.CreateJoinToken),
		ordinary(get, "/v1/cluster/join-tokens", "ClusterService.ListJoinTokens", fromQuery, r.Cluster.ListJoinTokens),
		ordinary(del, "/v1/cluster/join-tokens", "ClusterService.RevokeJoinToken", fromQuery, r.Cluster.RevokeJoinToken),
		ordinary(get, "/v1/cluster/plan", "ClusterService.GetPlan", fromQuery, r.Cluster.GetPlan),
		ordinary(post, "/v1/cluster/nodes:change", "ClusterService.ChangeNode", fromJSON, r.Cluster.ChangeNode),
		ordinary(post, "/v1/cluster/ranges:transfer", "ClusterService.TransferLeadership", fromJSON, r.Cluster.TransferLeadership),
		ordinary(post, "/v1/cluster/certificates", "ClusterService.IssueCertificate", fromJSON, r.Cluster.IssueCertificate),
		ordinary(post, "/v1/cluster/authority:rotate", "ClusterService.RotateAuthority", fromJSON, r.Cluster.RotateAuthority),
	}
}
