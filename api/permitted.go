package api

import (
	"context"

	"github.com/quorate/quorate/internal/rbac"
)

// Permitted returns nil if the caller of the call that ctx is of may have requests
// decided in a namespace, and otherwise the error to answer with: over gRPC as it is,
// over HTTP with status 401 or 403. It is for protocols whose requests do not say the
// namespace in a field of that name; where authentication is off everybody may.
func Permitted(ctx context.Context, namespace string) error {
	return PermittedTo(ctx, rbac.Check, namespace)
}

// PermittedTo is Permitted for another permission than that to have requests decided.
func PermittedTo(ctx context.Context, p rbac.Permission, namespace string) error {
	if v := CallOf(ctx); v != nil {
		return v.Require(ctx, p, namespace)
	}
	return nil
}
