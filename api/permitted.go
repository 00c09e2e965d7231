package api

import (
	"context"

	"github.com/quorate/quorate/internal/rbac"
)

// Permitted returns an error if the caller of ctx may not have requests decided in a namespace.
// Over gRPC the error is the answer; over HTTP it maps to status 401 or 403. Permitted is for
// protocols whose requests do not carry the namespace in a field of that name. With authentication
// off it permits everybody.
func Permitted(ctx context.Context, namespace string) error {
	return PermittedTo(ctx, rbac.Check, namespace)
}

// PermittedTo is like Permitted, for the permission p.
func PermittedTo(ctx context.Context, p rbac.Permission, namespace string) error {
	if v := CallOf(ctx); v != nil {
		return v.Require(ctx, p, namespace)
	}
	return nil
}
