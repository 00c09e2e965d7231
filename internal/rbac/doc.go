// Package rbac implements role-based access control: permissions, roles, bindings and bearer
// tokens, as stored in the meta group.
//
// A permission is the smallest right that can be granted, such as limits.write. A role is a fixed,
// named set of permissions. A binding grants a role, or single permissions, to an identity:
// everywhere, in one namespace, or in one realm. No binding takes a permission away; the
// default is to deny.
//
// A [Table] holds all bindings and tokens. It is immutable: a change returns a new one, so readers
// need no lock and snapshots no copy. Apply depends only on its arguments, so all replicas have the
// same table.
//
// Roles and permissions are stored by name. A name that this version does not know, because a newer
// version made the binding, is kept and grants nothing here.
//
// Bounds: [MaxBindings], [MaxTokens], and those of names in binding.go.
package rbac
