package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/api/access"
	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/apiproto"
)

// LoadPolicies implements AccountService.LoadPolicies. It checks no permission: the application has
// authorized the caller.
func (s *AccountService) LoadPolicies(ctx context.Context, req *quoratev1.LoadPoliciesRequest) (*quoratev1.LoadPoliciesResponse, error) {
	id, policies, err := s.loadCall(req)
	if err != nil {
		return nil, err
	}
	by, err := s.Identity(ctx)
	if err != nil {
		return nil, err
	}
	return s.storePolicies(ctx, by, id, policies)
}

// WritePolicies stores policies like LoadPolicies, and checks permissions.
func (s *AccountAdminService) WritePolicies(ctx context.Context, req *quoratev1.LoadPoliciesRequest) (*quoratev1.LoadPoliciesResponse, error) {
	id, policies, err := s.loadCall(req)
	if err != nil {
		return nil, err
	}
	who, err := s.mayPolicies(ctx, id, access.PoliciesWrite)
	if err == nil && id.Version != "" {
		_, err = s.mayPolicies(ctx, id, access.PoliciesOverrideVersion)
	}
	if err != nil {
		return nil, err
	}
	return s.storePolicies(ctx, who, id, policies)
}

// loadCall validates policies to store. The version that it returns is empty if the version is to
// be their hash.
func (s *accountCalls) loadCall(req *quoratev1.LoadPoliciesRequest) (id account.ConfigID, policies map[account.PolicyKey]account.Policy, err error) {
	id = account.ConfigID{App: req.AppId, Realm: req.Realm}
	if err := inRealm(id.App, id.Realm); err != nil {
		return id, nil, err
	}
	if v := req.Version; v != "" {
		if strings.HasPrefix(v, "$") {
			return id, nil, apierr.Invalid("version", "is %q; must not begin with \"$\"; leave it out to use a hash of the content", apierr.Clip(v))
		}
		id.Version = "#" + strings.TrimPrefix(v, "#")
		if err := badAt("", id.Validate()); err != nil {
			return id, nil, err
		}
	}
	policies, err = policiesOf(req.Config)
	return id, policies, err
}

func (s *accountCalls) storePolicies(ctx context.Context, by string, id account.ConfigID, policies map[account.PolicyKey]account.Policy) (*quoratev1.LoadPoliciesResponse, error) {
	stored, created, err := s.node.LoadPolicies(ctx, by, id, policies)
	if err != nil {
		return nil, fromAccounts(err)
	}
	if created {
		s.Log.InfoContext(ctx, "policies loaded", "by", by, "config", stored, "policies", len(policies))
	}
	return &quoratev1.LoadPoliciesResponse{Id: apiproto.ConfigID(stored), Created: created}, nil
}

// mayPolicies returns the caller's identity, or an error if it lacks a permission in the config's
// realm.
func (s *AccountAdminService) mayPolicies(ctx context.Context, id account.ConfigID, permission string) (string, error) {
	who, err := s.Identity(ctx)
	if err == nil {
		err = s.may(ctx, who, permission, "", access.Subject{App: id.App, Realm: id.Realm})
	}
	return who, err
}

// policiesCall validates a call about one config, and checks the permission.
func (s *AccountAdminService) policiesCall(ctx context.Context, p *quoratev1.PolicyConfigID, permission string) (account.ConfigID, string, error) {
	id, err := configID("id", p)
	if err != nil {
		return id, "", err
	}
	who, err := s.mayPolicies(ctx, id, permission)
	return id, who, err
}

// GetPolicies implements quoratev1.AccountAdminServiceServer.
func (s *AccountAdminService) GetPolicies(ctx context.Context, req *quoratev1.GetPoliciesRequest) (*quoratev1.GetPoliciesResponse, error) {
	id, _, err := s.policiesCall(ctx, req.Id, access.PoliciesRead)
	if err != nil {
		return nil, err
	}
	c, err := s.node.Policies(ctx, id)
	switch {
	case err != nil:
		return nil, fromAccounts(err)
	case c == nil:
		return nil, &apierr.Error{
			Code: codes.NotFound, HTTP: http.StatusNotFound, Reason: "NO_SUCH_POLICIES", Field: "id",
			Detail: fmt.Sprintf("unknown policy config %s~%s~%s: not loaded, or purged", id.App, id.Realm, id.Version),
		}
	}
	return &quoratev1.GetPoliciesResponse{Id: apiproto.ConfigID(c.ID), Config: ConfigProto(c.Policies), LoadedAt: apiproto.Time(c.At), By: c.By}, nil
}

// ListPolicies implements quoratev1.AccountAdminServiceServer.
func (s *AccountAdminService) ListPolicies(ctx context.Context, req *quoratev1.ListPoliciesRequest) (*quoratev1.ListPoliciesResponse, error) {
	if err := inRealm(req.AppId, req.Realm, atom{"page_token", req.PageToken}); err != nil {
		return nil, err
	}
	size, err := accountPage(req.PageSize)
	if err != nil {
		return nil, err
	}
	if _, err := s.mayPolicies(ctx, account.ConfigID{App: req.AppId, Realm: req.Realm}, access.PoliciesRead); err != nil {
		return nil, err
	}
	list, err := s.node.ListPolicies(ctx, req.AppId, req.Realm, req.PageToken, size)
	if err != nil {
		return nil, fromAccounts(err)
	}
	out := &quoratev1.ListPoliciesResponse{}
	for i := range list {
		c := &list[i]
		out.Policies = append(out.Policies, &quoratev1.PolicySummary{Id: apiproto.ConfigID(c.ID), Policies: int32(c.Count), LoadedAt: apiproto.Time(c.At), By: c.By})
	}
	if len(list) == size {
		out.NextPageToken = list[size-1].ID.Version
	}
	return out, nil
}

// PurgePolicies implements quoratev1.AccountAdminServiceServer.
func (s *AccountAdminService) PurgePolicies(ctx context.Context, req *quoratev1.PurgePoliciesRequest) (*quoratev1.PurgePoliciesResponse, error) {
	id, who, err := s.policiesCall(ctx, req.Id, access.PoliciesPurge)
	if err != nil {
		return nil, err
	}
	purged, err := s.node.PurgePolicies(ctx, id)
	if err != nil {
		return nil, fromAccounts(err)
	}
	s.Log.InfoContext(ctx, "policies purged", "by", who, "config", id, "purged", purged)
	return &quoratev1.PurgePoliciesResponse{Purged: purged}, nil
}
