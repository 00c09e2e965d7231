package api

import (
	"context"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

type clusterServer struct {
	quoratev1.UnimplementedClusterServiceServer
	*service
}

func (s *clusterServer) GetStatus(ctx context.Context, req *quoratev1.GetStatusRequest) (*quoratev1.GetStatusResponse, error) {
	return reply(s.status(ctx, req))
}

func (s *clusterServer) Join(ctx context.Context, req *quoratev1.JoinRequest) (*quoratev1.JoinResponse, error) {
	return reply(s.joinCluster(ctx, req))
}

func (s *clusterServer) CreateJoinToken(ctx context.Context, req *quoratev1.CreateJoinTokenRequest) (*quoratev1.CreateJoinTokenResponse, error) {
	return reply(s.createJoinToken(ctx, req))
}

func (s *clusterServer) ListJoinTokens(ctx context.Context, req *quoratev1.ListJoinTokensRequest) (*quoratev1.ListJoinTokensResponse, error) {
	return reply(s.listJoinTokens(ctx, req))
}

func (s *clusterServer) RevokeJoinToken(ctx context.Context, req *quoratev1.RevokeJoinTokenRequest) (*quoratev1.RevokeJoinTokenResponse, error) {
	return reply(s.revokeJoinToken(ctx, req))
}

func (s *clusterServer) GetPlan(ctx context.Context, req *quoratev1.GetPlanRequest) (*quoratev1.GetPlanResponse, error) {
	return reply(s.getPlan(ctx, req))
}

func (s *clusterServer) ChangeNode(ctx context.Context, req *quoratev1.ChangeNodeRequest) (*quoratev1.ChangeNodeResponse, error) {
	return reply(s.changeNode(ctx, req))
}

func (s *clusterServer) TransferLeadership(ctx context.Context, req *quoratev1.TransferLeadershipRequest) (*quoratev1.TransferLeadershipResponse, error) {
	return reply(s.transferLeadership(ctx, req))
}

func (s *clusterServer) IssueCertificate(ctx context.Context, req *quoratev1.IssueCertificateRequest) (*quoratev1.IssueCertificateResponse, error) {
	return reply(s.issueCertificate(ctx, req))
}

func (s *clusterServer) RotateAuthority(ctx context.Context, req *quoratev1.RotateAuthorityRequest) (*quoratev1.RotateAuthorityResponse, error) {
	return reply(s.rotateAuthority(ctx, req))
}
