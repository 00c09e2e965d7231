package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/api/access"
	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/internal/account"
)

// Anonymous is the identity of a caller that names none.
const Anonymous = auth.Anonymous

// Identity returns the caller's identity, for permissions, request ids and histories: the proven one,
// or with authentication off the name in the metadata or header quorate-user or x-forwarded-user;
// [Anonymous] without one. Its error is that of an invalid name.
func (s *Gate) Identity(ctx context.Context) (string, error) {
	if s.Guard != nil {
		if c := auth.From(ctx); c != nil {
			return c.Identity, nil
		}
		return Anonymous, nil
	}
	who, err := author(ctx, "", "")
	if err != nil {
		return "", err
	}
	return cmp.Or(who, Anonymous), nil
}

// may returns an error if the identity who lacks a permission. The error names field, the part of the request
// that needs the permission.
func (s *Gate) may(ctx context.Context, who, permission, field string, about access.Subject) error {
	err := access.Check(ctx, s.grants, who, permission, about)
	if err == nil {
		return nil
	}
	return &apierr.Error{
		Code: codes.PermissionDenied, HTTP: http.StatusForbidden, Reason: "PERMISSION_DENIED", Field: field, Detail: err.Error(),
		Meta: map[string]string{"permission": permission, "realm": about.Realm, "identity": who},
	}
}

func aboutAccount(who string, id account.ID) access.Subject {
	self := "0"
	if id.Identity == who {
		self = "1"
	}
	return access.Subject{App: id.App, Realm: id.Realm, Binding: map[string]string{access.Resource: id.Resource, access.Namespace: id.Namespace, access.Self: self}}
}

// aboutList binds only the parts that the filter names: a grant for one namespace does not allow a
// list of all namespaces.
func aboutList(f account.Filter) access.Subject {
	binding := map[string]string{}
	if f.Resource != "" {
		binding[access.Resource] = f.Resource
	}
	if f.Namespace != nil {
		binding[access.Namespace] = *f.Namespace
	}
	return access.Subject{App: f.App, Realm: f.Realm, Binding: binding}
}

// mayWrite returns an error if the caller may not write an account of ops. An account needs the
// permission in the internal realm if its policy, or the policy that an operation sets, is of an
// absolute resource.
//
// mayWrite reads the policies before the operations are applied. If an application sets the first
// absolute policy in between, one more change by hand may pass.
func (s *AccountAdminService) mayWrite(ctx context.Context, who string, ops []account.Op) error {
	var narrow []int // operations that are allowed unless the resource is absolute
	for i := range ops {
		about := aboutAccount(who, ops[i].Account)
		about.Absolute = true
		if s.may(ctx, who, access.AccountsWrite, "", about) == nil {
			continue
		}
		about.Absolute = false
		if err := s.may(ctx, who, access.AccountsWrite, opAccount(i), about); err != nil {
			return err
		}
		narrow = append(narrow, i)
	}
	if len(narrow) == 0 {
		return nil
	}
	absolute, err := s.absolute(ctx, ops, narrow)
	if err != nil {
		return err
	}
	for _, i := range narrow {
		if !absolute[ops[i].Account] {
			continue
		}
		about := aboutAccount(who, ops[i].Account)
		about.Absolute = true
		if err := s.may(ctx, who, access.AccountsWrite, opAccount(i), about); err != nil {
			return err
		}
	}
	return nil
}

func opAccount(i int) string { return fmt.Sprintf("ops[%d].account_id", i) }

// absolute returns which accounts of the operations ops[i], i in some, have or would get a policy
// of an absolute resource.
func (s *AccountAdminService) absolute(ctx context.Context, ops []account.Op, some []int) (map[account.ID]bool, error) {
	ids := make([]account.ID, 0, len(some))
	out := map[account.ID]bool{}
	configs := map[account.ConfigID]*account.Config{}
	for _, i := range some {
		ids = append(ids, ops[i].Account)
		yes, err := s.setsAbsolute(ctx, ops[i].Policy, configs)
		if err != nil {
			return nil, err
		}
		out[ops[i].Account] = out[ops[i].Account] || yes
	}
	states, _, err := s.node.GetAccounts(ctx, ids, false)
	if err != nil {
		return nil, fromAccounts(err)
	}
	for i := range states {
		if r := states[i].Rule; states[i].Exists && r != nil && r.Options&account.AbsoluteResource != 0 {
			out[states[i].ID] = true
		}
	}
	return out, nil
}

// setsAbsolute reports whether ref names a policy of an absolute resource. It reports false for a
// missing policy: the operation that sets it fails later.
func (s *AccountAdminService) setsAbsolute(ctx context.Context, ref *account.PolicyRef, configs map[account.ConfigID]*account.Config) (bool, error) {
	if ref == nil {
		return false, nil
	}
	c, seen := configs[ref.Config]
	if !seen {
		var err error
		if c, err = s.node.Policies(ctx, ref.Config); err != nil {
			return false, fromAccounts(err)
		}
		configs[ref.Config] = c
	}
	return c != nil && c.Policies[ref.Key].Options&account.AbsoluteResource != 0, nil
}
