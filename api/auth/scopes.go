package auth

import (
	"google.golang.org/protobuf/proto"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/descriptor"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// The functions of this file return the scopes of a request. For a message of an unexpected type
// they return everywhere, the strictest requirement.

func byNamespace(m proto.Message) []rbac.Scope {
	if r, ok := m.(interface{ GetNamespace() string }); ok {
		return []rbac.Scope{rbac.Namespace(r.GetNamespace())}
	}
	return []rbac.Scope{rbac.Everywhere}
}

// byCheck is for a check, which may name its limit or an HTTP method and path.
func byCheck(m proto.Message) []rbac.Scope {
	if r, ok := m.(*quoratev1.AllowRequest); ok {
		return []rbac.Scope{ofCheck(r)}
	}
	return []rbac.Scope{rbac.Everywhere}
}

func ofCheck(r *quoratev1.AllowRequest) rbac.Scope {
	return rbac.Namespace(quota.NamespaceOf(r.GetNamespace(), r.GetMethod(), r.GetPath()))
}

// byDomain is for Envoy's rate limit service, whose domains are namespaces.
func byDomain(m proto.Message) []rbac.Scope {
	if r, ok := m.(interface{ GetDomain() string }); ok {
		return []rbac.Scope{rbac.Namespace(descriptor.Namespace(r.GetDomain()))}
	}
	return []rbac.Scope{rbac.Everywhere}
}

// byNamespaceOrAll is for requests in which an empty namespace means all namespaces.
func byNamespaceOrAll(m proto.Message) []rbac.Scope {
	if r, ok := m.(interface{ GetNamespace() string }); ok && r.GetNamespace() != "" {
		return []rbac.Scope{rbac.Namespace(r.GetNamespace())}
	}
	return []rbac.Scope{rbac.Everywhere}
}

func byChecks(m proto.Message) []rbac.Scope {
	if r, ok := m.(interface {
		GetChecks() []*quoratev1.AllowRequest
	}); ok {
		return each(r.GetChecks(), ofCheck)
	}
	return []rbac.Scope{rbac.Everywhere}
}

func byOverrides(m proto.Message) []rbac.Scope {
	if r, ok := m.(*quoratev1.SetOverridesRequest); ok {
		return each(r.GetOverrides(), func(o *quoratev1.Override) rbac.Scope { return rbac.Namespace(o.GetNamespace()) })
	}
	return []rbac.Scope{rbac.Everywhere}
}

func byKeys(m proto.Message) []rbac.Scope {
	if r, ok := m.(*quoratev1.DeleteOverridesRequest); ok {
		return each(r.GetKeys(), func(k *quoratev1.KeyRef) rbac.Scope { return rbac.Namespace(k.GetNamespace()) })
	}
	return []rbac.Scope{rbac.Everywhere}
}

func byOps(m proto.Message) []rbac.Scope {
	if r, ok := m.(*quoratev1.ApplyOpsRequest); ok {
		return each(r.GetOps(), func(o *quoratev1.Op) rbac.Scope { return rbac.Realm(o.GetAccountId().GetRealm()) })
	}
	return []rbac.Scope{rbac.Everywhere}
}

func byAccounts(m proto.Message) []rbac.Scope {
	if r, ok := m.(*quoratev1.GetAccountsRequest); ok {
		return each(r.GetAccounts(), func(a *quoratev1.AccountID) rbac.Scope { return rbac.Realm(a.GetRealm()) })
	}
	return []rbac.Scope{rbac.Everywhere}
}

func byRealm(m proto.Message) []rbac.Scope {
	if r, ok := m.(interface{ GetRealm() string }); ok {
		return []rbac.Scope{rbac.Realm(r.GetRealm())}
	}
	return []rbac.Scope{rbac.Everywhere}
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
