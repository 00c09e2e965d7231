package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/auth"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
	"github.com/quorate/quorate/internal/suggest"
)

const maxTokenTTL = 3650 * 24 * time.Hour

// SecurityService manages role bindings and tokens, and reads the audit logs.
type SecurityService struct {
	quoratev1.UnimplementedSecurityServiceServer
	*core
	node SecurityStore
	log  AuditSource
}

// WhoAmI implements quoratev1.SecurityServiceServer.
func (s *SecurityService) WhoAmI(ctx context.Context, _ *quoratev1.WhoAmIRequest) (*quoratev1.WhoAmIResponse, error) {
	if s.Guard == nil {
		who, err := s.Identity(ctx)
		if err != nil {
			return nil, err
		}
		return &quoratev1.WhoAmIResponse{Identity: who, Credential: auth.UnverifiedCaller(who).Credential.String()}, nil
	}
	c := auth.From(ctx)
	out := &quoratev1.WhoAmIResponse{Identity: c.Identity, Credential: c.Credential.String(), Groups: c.Groups, Authentication: true}
	for _, b := range s.Guard.Bindings(c) {
		out.Bindings = append(out.Bindings, bindingProto(&b.Binding, b.In))
	}
	return out, nil
}

// ListRoles implements quoratev1.SecurityServiceServer.
func (s *SecurityService) ListRoles(context.Context, *quoratev1.ListRolesRequest) (*quoratev1.ListRolesResponse, error) {
	out := &quoratev1.ListRolesResponse{}
	for _, r := range rbac.Roles() {
		out.Roles = append(out.Roles, &quoratev1.Role{Name: r.Name, Summary: r.Summary, Permissions: r.Permissions.Names()})
	}
	return out, nil
}

func bindingProto(b *rbac.Binding, in auth.Kept) *quoratev1.Binding {
	return &quoratev1.Binding{
		Identity: b.Identity, Role: b.Role, Permissions: b.Permissions, Scope: string(b.Scope), By: b.By, At: apiproto.Time(b.At), KeptIn: string(in),
	}
}

// SetBinding implements quoratev1.SecurityServiceServer.
func (s *SecurityService) SetBinding(ctx context.Context, req *quoratev1.SetBindingRequest) (*quoratev1.SetBindingResponse, error) {
	by, err := author(ctx, "", "")
	if err != nil {
		return nil, err
	}
	p := req.GetBinding()
	b := rbac.Binding{
		Identity: p.GetIdentity(), Role: p.GetRole(), Permissions: slices.Compact(slices.Sorted(slices.Values(p.GetPermissions()))),
		Scope: scopeOf(p.GetScope()), By: by, At: quota.Time(time.Now().UnixNano()),
	}
	if _, known := rbac.FindRole(b.Role); b.Role != "" && !known {
		return nil, noRole(b.Role)
	}
	if err := badAt("binding", b.Validate()); err != nil {
		return nil, err
	}
	if !s.node.Security().Room(&b) {
		return nil, storeFull("the cluster already has 10000 bindings, the maximum; bind roles to groups, or unbind some")
	}
	changed, err := s.node.SetBinding(ctx, b)
	if err != nil {
		return nil, apierr.From(err)
	}
	s.Log.InfoContext(ctx, "role bound", "identity", b.Identity, "role", b.Role, "permissions", b.Permissions, "scope", b.Scope, "by", by, "changed", changed)
	return &quoratev1.SetBindingResponse{Changed: changed}, nil
}

// noRole returns the error for a role that does not exist.
func noRole(name string) *apierr.Error {
	names := rbac.RoleNames()
	return &apierr.Error{
		Code: codes.NotFound, HTTP: http.StatusNotFound, Reason: "NO_SUCH_ROLE", Field: "binding.role",
		Detail: "unknown role " + apierr.Quoted(name) + ";" + suggest.DidYouMean(name, names, "") + " known: " + strings.Join(names, ", "),
	}
}

func scopeOf(text string) rbac.Scope {
	if text == "" {
		return rbac.Everywhere
	}
	return rbac.Scope(text)
}

// DeleteBinding implements quoratev1.SecurityServiceServer.
func (s *SecurityService) DeleteBinding(ctx context.Context, req *quoratev1.DeleteBindingRequest) (*quoratev1.DeleteBindingResponse, error) {
	b := rbac.Binding{Identity: req.Identity, Role: req.Role, Scope: scopeOf(req.Scope)}
	was, err := s.node.DeleteBinding(ctx, b)
	if err != nil {
		return nil, apierr.From(err)
	}
	if !was {
		return nil, s.noBinding(&b)
	}
	s.Log.InfoContext(ctx, "role unbound", "identity", b.Identity, "role", b.Role, "scope", b.Scope)
	return &quoratev1.DeleteBindingResponse{}, nil
}

// noBinding returns the error for a binding that the cluster does not keep. It says where the
// binding is kept instead, if anywhere.
func (s *SecurityService) noBinding(b *rbac.Binding) *apierr.Error {
	if s.Guard != nil {
		for _, k := range s.Guard.Bindings(nil) {
			if k.In != auth.InCluster && k.Identity == b.Identity && k.Role == b.Role && k.Scope == b.Scope {
				return &apierr.Error{
					Code: codes.FailedPrecondition, HTTP: http.StatusConflict, Reason: "NOT_IN_CLUSTER",
					Detail: "the binding is kept in " + strings.ReplaceAll(string(k.In), "_", " ") + ", not by the cluster; it cannot be deleted through the API",
				}
			}
		}
	}
	return &apierr.Error{
		Code: codes.NotFound, HTTP: http.StatusNotFound, Reason: "NO_SUCH_BINDING",
		Detail: "unknown binding of " + apierr.Quoted(b.Identity) + " to role " + apierr.Quoted(b.Role) + " " + b.Scope.String() + "; list them with: quorate roles list",
	}
}

// ListBindings implements quoratev1.SecurityServiceServer.
func (s *SecurityService) ListBindings(_ context.Context, req *quoratev1.ListBindingsRequest) (*quoratev1.ListBindingsResponse, error) {
	var list []auth.KeptBinding
	if s.Guard != nil {
		list = s.Guard.Bindings(nil)
	} else {
		for _, b := range s.node.Security().Bindings() {
			list = append(list, auth.KeptBinding{Binding: b, In: auth.InCluster})
		}
	}
	out := &quoratev1.ListBindingsResponse{}
	for i := range list {
		if req.Identity == "" || list[i].Identity == req.Identity {
			out.Bindings = append(out.Bindings, bindingProto(&list[i].Binding, list[i].In))
		}
	}
	slices.SortStableFunc(out.Bindings, func(a, b *quoratev1.Binding) int {
		return strings.Compare(a.Identity+"\x00"+a.Role+"\x00"+a.Scope, b.Identity+"\x00"+b.Role+"\x00"+b.Scope)
	})
	return out, nil
}

// CreateToken implements quoratev1.SecurityServiceServer.
func (s *SecurityService) CreateToken(ctx context.Context, req *quoratev1.CreateTokenRequest) (*quoratev1.CreateTokenResponse, error) {
	by, err := author(ctx, "", "")
	if err != nil {
		return nil, err
	}
	now := time.Now()
	text, id, hash := pki.NewBearer()
	t := rbac.Token{ID: id, Name: req.Name, Hash: hash, Comment: req.Comment, By: by, At: quota.Time(now.UnixNano())}
	if req.Ttl != nil {
		ttl := req.Ttl.AsDuration()
		if req.Ttl.CheckValid() != nil || ttl <= 0 || ttl > maxTokenTTL {
			return nil, apierr.Invalid("ttl", "is %v; must be more than 0 and at most 3650 days, or absent for a token that does not expire", ttl)
		}
		t.Expires = quota.Time(now.Add(ttl).UnixNano())
	}
	if err := badAt("", t.Validate()); err != nil {
		return nil, err
	}
	if tokens := s.node.Security().Tokens(); len(tokens) >= rbac.MaxTokens && !slices.ContainsFunc(tokens, func(o rbac.Token) bool { return o.Expired(t.At) }) {
		return nil, storeFull("the cluster already has 10000 tokens, the maximum; revoke some")
	}
	if err := s.node.AddToken(ctx, t); err != nil {
		return nil, apierr.From(err)
	}
	s.Log.InfoContext(ctx, "bearer token made", "id", id, "name", t.Name, "by", by)
	return &quoratev1.CreateTokenResponse{Token: text, Info: tokenProto(&t)}, nil
}

func tokenProto(t *rbac.Token) *quoratev1.BearerToken {
	return &quoratev1.BearerToken{Id: t.ID, Name: t.Name, ExpiresAt: apiproto.Time(t.Expires), Comment: t.Comment, By: t.By, CreatedAt: apiproto.Time(t.At)}
}

// ListTokens implements quoratev1.SecurityServiceServer.
func (s *SecurityService) ListTokens(context.Context, *quoratev1.ListTokensRequest) (*quoratev1.ListTokensResponse, error) {
	tokens := slices.Clone(s.node.Security().Tokens())
	slices.SortStableFunc(tokens, func(a, b rbac.Token) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return int(min(max(a.At-b.At, -1), 1))
	})
	out := &quoratev1.ListTokensResponse{}
	for i := range tokens {
		out.Tokens = append(out.Tokens, tokenProto(&tokens[i]))
	}
	return out, nil
}

// wholeToken returns an error, without the text, if a token was given where its id belongs.
func wholeToken(id string) error {
	if !holdsToken(id) {
		return nil
	}
	return apierr.Invalid("id", "is a whole token; give only its id, the part after the first dot, and treat the token as exposed")
}

// RevokeToken implements quoratev1.SecurityServiceServer.
func (s *SecurityService) RevokeToken(ctx context.Context, req *quoratev1.RevokeTokenRequest) (*quoratev1.RevokeTokenResponse, error) {
	if err := wholeToken(req.Id); err != nil {
		return nil, err
	}
	if req.Id == "" {
		return nil, apierr.Invalid("id", "is empty; must be the id of a token, as quorate tokens list shows them")
	}
	was, err := s.node.RevokeToken(ctx, req.Id)
	if err != nil {
		return nil, apierr.From(err)
	}
	if !was {
		return nil, &apierr.Error{Code: codes.NotFound, HTTP: http.StatusNotFound, Reason: "NO_SUCH_TOKEN", Field: "id", Detail: "unknown token " + apierr.Quoted(req.Id)}
	}
	s.Log.InfoContext(ctx, "bearer token revoked", "id", req.Id)
	return &quoratev1.RevokeTokenResponse{}, nil
}
