// Package rbac says who may do what: permissions, roles, bindings and bearer
// tokens, as the meta group keeps them.
//
// A permission is the least that can be given, such as limits.write. A role is a
// fixed set of them with a name. A binding gives a role, or single permissions, to
// an identity: everywhere, in one namespace, or in one realm. There is no binding
// that takes away: what nobody gave, nobody has.
//
// A [Table] is all bindings and tokens. It is never changed: a change makes
// another one, so readers need no lock, and snapshots no copy. Apply reads nothing
// but its arguments, so that all replicas hold the same.
//
// Names of roles and permissions are stored as words. One that this version does
// not know, because a newer one made the binding, is kept and gives nothing here.
//
// Bounds: [MaxBindings], [MaxTokens], and those of names in check.go.
package rbac
