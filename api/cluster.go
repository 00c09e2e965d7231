package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/apijson"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// Operator changes the members of the cluster.
type Operator interface {
	// ChangeCluster carries out a call of ClusterService other than GetStatus: req is the request
	// of the call, and the result is its response. by is the caller's identity. A refusal is an
	// error whose GRPCStatus gives its kind.
	ChangeCluster(ctx context.Context, by string, req proto.Message) (proto.Message, error)
	// FullStatus returns Status with the fields that only other nodes know. It may ask them for up
	// to one second.
	FullStatus(ctx context.Context) *quoratev1.GetStatusResponse
}

// Bounds of calls about the cluster.
const (
	maxJoinToken = 512      // bytes
	maxAddress   = 261      // bytes of host:port
	maxCSR       = 16 << 10 // bytes
	maxJoinID    = 64       // bytes
	maxMembers   = 256
)

// ClusterService changes the members of the cluster.
type ClusterService struct {
	quoratev1.UnimplementedClusterServiceServer
	*core
	node clusterNode
}

// GetStatus implements quoratev1.ClusterServiceServer.
func (s *ClusterService) GetStatus(ctx context.Context, _ *quoratev1.GetStatusRequest) (*quoratev1.GetStatusResponse, error) {
	return s.node.FullStatus(ctx), nil
}

// operate passes a call to the node.
func operate[R proto.Message](ctx context.Context, s *ClusterService, req proto.Message) (res R, err error) {
	by, err := s.Identity(ctx)
	if err != nil {
		return res, err
	}
	out, err := s.node.ChangeCluster(ctx, by, req)
	if err != nil {
		return res, fromOperator(err, req)
	}
	res, ok := out.(R)
	if !ok {
		return res, &apierr.Error{Code: codes.Internal, HTTP: http.StatusInternalServerError, Reason: "INTERNAL", Detail: "the cluster answered another call"}
	}
	return res, nil
}

// kinds maps the code of an Operator's refusal to its HTTP status and its reason.
var kinds = map[codes.Code]struct {
	http   int
	reason string
}{
	codes.InvalidArgument:    {http.StatusBadRequest, "INVALID_FIELD"},
	codes.PermissionDenied:   {http.StatusForbidden, "JOIN_DENIED"},
	codes.AlreadyExists:      {http.StatusConflict, "EXISTS"},
	codes.NotFound:           {http.StatusNotFound, "NOT_THERE"},
	codes.FailedPrecondition: {http.StatusConflict, "NOT_NOW"},
	codes.ResourceExhausted:  {http.StatusServiceUnavailable, "CLUSTER_FULL"},
	codes.Aborted:            {http.StatusConflict, "NOT_YET"},
}

// fromOperator maps an error of an Operator. A refusal whose text begins with the name of a field
// of req is about that field.
func fromOperator(err error, req proto.Message) *apierr.Error {
	st, ok := status.FromError(err)
	kind, known := kinds[st.Code()]
	if !ok || !known {
		return apierr.From(err)
	}
	f := &apierr.Error{Code: st.Code(), HTTP: kind.http, Reason: kind.reason, Detail: st.Message()}
	field, rest, ok := strings.Cut(st.Message(), ": ")
	if ok && slices.Contains(apijson.FieldsOf(req.ProtoReflect().Descriptor()), field) {
		f.Field, f.Detail = field, rest
	}
	return f
}

// checkLength returns an error if v is longer than most bytes.
func checkLength[T string | []byte](field string, v T, most int) error {
	if len(v) > most {
		return apierr.Invalid(field, "is %d bytes; at most %d", len(v), most)
	}
	return nil
}

// Join implements quoratev1.ClusterServiceServer.
func (s *ClusterService) Join(ctx context.Context, req *quoratev1.JoinRequest) (*quoratev1.JoinResponse, error) {
	for _, err := range []error{
		checkLength("token", req.Token, maxJoinToken), checkLength("node", req.Node, quota.MaxNameLen),
		checkLength("peer_address", req.PeerAddress, maxAddress), checkLength("grpc_address", req.GrpcAddress, maxAddress),
		checkLength("http_address", req.HttpAddress, maxAddress), checkLength("zone", req.Zone, quota.MaxNameLen),
		checkLength("version", req.Version, quota.MaxNameLen), checkLength("csr", req.Csr, maxCSR), checkLength("join_id", req.JoinId, maxJoinID),
	} {
		if err != nil {
			return nil, err
		}
	}
	if err := quota.CheckName("node", req.Node); err != nil {
		return nil, apierr.InvalidName("node", err)
	}
	return operate[*quoratev1.JoinResponse](ctx, s, req)
}

// CreateJoinToken implements quoratev1.ClusterServiceServer.
func (s *ClusterService) CreateJoinToken(ctx context.Context, req *quoratev1.CreateJoinTokenRequest) (*quoratev1.CreateJoinTokenResponse, error) {
	return operate[*quoratev1.CreateJoinTokenResponse](ctx, s, req)
}

// ListJoinTokens implements quoratev1.ClusterServiceServer.
func (s *ClusterService) ListJoinTokens(ctx context.Context, req *quoratev1.ListJoinTokensRequest) (*quoratev1.ListJoinTokensResponse, error) {
	return operate[*quoratev1.ListJoinTokensResponse](ctx, s, req)
}

// RevokeJoinToken implements quoratev1.ClusterServiceServer.
func (s *ClusterService) RevokeJoinToken(ctx context.Context, req *quoratev1.RevokeJoinTokenRequest) (*quoratev1.RevokeJoinTokenResponse, error) {
	if req.Id == "" {
		return nil, apierr.Invalid("id", "is empty; \"quorate join-token list\" prints the ids")
	}
	if err := wholeToken(req.Id); err != nil {
		return nil, err
	}
	if err := checkLength("id", req.Id, quota.MaxNameLen); err != nil {
		return nil, err
	}
	return operate[*quoratev1.RevokeJoinTokenResponse](ctx, s, req)
}

// GetPlan implements quoratev1.ClusterServiceServer.
func (s *ClusterService) GetPlan(ctx context.Context, req *quoratev1.GetPlanRequest) (*quoratev1.GetPlanResponse, error) {
	if len(req.Without) > maxMembers {
		return nil, apierr.Invalid("without", "has %d nodes; at most %d", len(req.Without), maxMembers)
	}
	return operate[*quoratev1.GetPlanResponse](ctx, s, req)
}

// ChangeNode implements quoratev1.ClusterServiceServer.
func (s *ClusterService) ChangeNode(ctx context.Context, req *quoratev1.ChangeNodeRequest) (*quoratev1.ChangeNodeResponse, error) {
	if err := checkLength("node", req.Node, quota.MaxNameLen); err != nil {
		return nil, err
	}
	if req.Node == "" {
		req = &quoratev1.ChangeNodeRequest{Node: s.node.Status().GetNode(), Change: req.Change, Force: req.Force}
	}
	return operate[*quoratev1.ChangeNodeResponse](ctx, s, req)
}

// TransferLeadership implements quoratev1.ClusterServiceServer.
func (s *ClusterService) TransferLeadership(ctx context.Context, req *quoratev1.TransferLeadershipRequest) (*quoratev1.TransferLeadershipResponse, error) {
	if len(req.Ranges) > apiproto.MaxList {
		return nil, apierr.Invalid("ranges", "has %d; at most %d", len(req.Ranges), apiproto.MaxList)
	}
	for _, err := range []error{checkLength("from", req.From, quota.MaxNameLen), checkLength("to", req.To, quota.MaxNameLen)} {
		if err != nil {
			return nil, err
		}
	}
	return operate[*quoratev1.TransferLeadershipResponse](ctx, s, req)
}

// IssueCertificate implements quoratev1.ClusterServiceServer.
func (s *ClusterService) IssueCertificate(ctx context.Context, req *quoratev1.IssueCertificateRequest) (*quoratev1.IssueCertificateResponse, error) {
	for _, err := range []error{checkLength("csr", req.Csr, maxCSR), checkLength("name", req.Name, quota.MaxNameLen)} {
		if err != nil {
			return nil, err
		}
	}
	return operate[*quoratev1.IssueCertificateResponse](ctx, s, req)
}

// RotateAuthority implements quoratev1.ClusterServiceServer.
func (s *ClusterService) RotateAuthority(ctx context.Context, req *quoratev1.RotateAuthorityRequest) (*quoratev1.RotateAuthorityResponse, error) {
	if req.Ask && req.Finish {
		return nil, apierr.Invalid("finish", "is set, and so is ask, which changes nothing; send one of them")
	}
	return operate[*quoratev1.RotateAuthorityResponse](ctx, s, req)
}
