package auth

import (
	"google.golang.org/protobuf/proto"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/descriptor"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// The functions of this file return the scopes of a request.
var (
	byNamespace = scopesOf(func(r interface{ GetNamespace() string }) []rbac.Scope {
		return []rbac.Scope{rbac.Namespace(r.GetNamespace())}
	})
	byRealm = scopesOf(func(r interface{ GetRealm() string }) []rbac.Scope { return []rbac.Scope{rbac.Realm(r.GetRealm())} })

	// byNamespaceOrAll is for requests in which an empty namespace means all namespaces.
	byNamespaceOrAll = scopesOf(func(r interface{ GetNamespace() string }) []rbac.Scope {
		if r.GetNamespace() == "" {
			return []rbac.Scope{rbac.Everywhere}
		}
		return []rbac.Scope{rbac.Namespace(r.GetNamespace())}
	})
	// byDomain is for Envoy's rate limit service, whose domains are namespaces.
	byDomain = scopesOf(func(r interface{ GetDomain() string }) []rbac.Scope {
		return []rbac.Scope{rbac.Namespace(descriptor.Namespace(r.GetDomain()))}
	})
	// byCheck is for a check, which may name its limit or an HTTP method and path.
	byCheck     = scopesOf(func(r *quoratev1.AllowRequest) []rbac.Scope { return []rbac.Scope{ofCheck(r)} })
	byChecks    = scopesOf(func(r hasChecks) []rbac.Scope { return each(r.GetChecks(), ofCheck) })
	byOverrides = scopesOf(func(r *quoratev1.SetOverridesRequest) []rbac.Scope {
		return each(r.GetOverrides(), func(o *quoratev1.Override) rbac.Scope { return rbac.Namespace(o.GetNamespace()) })
	})
	byKeys = scopesOf(func(r *quoratev1.DeleteOverridesRequest) []rbac.Scope {
		return each(r.GetKeys(), func(k *quoratev1.KeyRef) rbac.Scope { return rbac.Namespace(k.GetNamespace()) })
	})
	byOps = scopesOf(func(r *quoratev1.ApplyOpsRequest) []rbac.Scope {
		return each(r.GetOps(), func(o *quoratev1.Op) rbac.Scope { return rbac.Realm(o.GetAccountId().GetRealm()) })
	})
	byAccounts = scopesOf(func(r *quoratev1.GetAccountsRequest) []rbac.Scope {
		return each(r.GetAccounts(), func(a *quoratev1.AccountID) rbac.Scope { return rbac.Realm(a.GetRealm()) })
	})
)

type hasChecks interface {
	GetChecks() []*quoratev1.AllowRequest
}

// scopesOf returns a function for requests of type R. For a message of another type it returns everywhere, the
// strictest requirement.
func scopesOf[R any](scopes func(R) []rbac.Scope) func(proto.Message) []rbac.Scope {
	return func(m proto.Message) []rbac.Scope {
		if r, ok := m.(R); ok {
			return scopes(r)
		}
		return []rbac.Scope{rbac.Everywhere}
	}
}

func ofCheck(r *quoratev1.AllowRequest) rbac.Scope {
	return rbac.Namespace(quota.NamespaceOf(r.GetNamespace(), r.GetMethod(), r.GetPath()))
}

// each returns the scopes of a list, without consecutive repetitions. The call itself refuses an
// empty list.
func each[T any](list []T, scope func(T) rbac.Scope) (out []rbac.Scope) {
	for _, one := range list {
		if s := scope(one); len(out) == 0 || out[len(out)-1] != s {
			out = append(out, s)
		}
	}
	return out
}

// inGubernator is for gubernator's API, whose limits are all in one namespace.
func inGubernator(proto.Message) []rbac.Scope { return []rbac.Scope{rbac.Namespace("gubernator")} }
