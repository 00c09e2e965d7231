package access

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// Permissions, under the names that grants and errors use.
const (
	AccountsRead            = "quota.accounts.read"            // look at single accounts
	AccountsList            = "quota.accounts.list"            // list accounts
	AccountsWrite           = "quota.accounts.write"           // apply operations
	PoliciesRead            = "quota.policies.read"            // look at policy configs
	PoliciesWrite           = "quota.policies.write"           // store configs named by their content
	PoliciesOverrideVersion = "quota.policies.overrideVersion" // with write: store configs under a chosen version
	PoliciesPurge           = "quota.policies.purge"           // delete policy configs
)

// Permissions returns all permissions.
func Permissions() []string {
	return []string{AccountsRead, AccountsList, AccountsWrite, PoliciesRead, PoliciesWrite, PoliciesOverrideVersion, PoliciesPurge}
}

// Attributes of a call's subject, which a grant may require.
const (
	App       = "app_id"
	Resource  = "resource_type"
	Namespace = "namespace"
	Self      = "self" // "1" if the account is the caller's own, "0" if not
)

// Attributes returns the attributes of calls that need a permission, or nil for an unknown
// permission. A call of accounts.list omits Resource and Namespace if it asks for all of them.
func Attributes(permission string) []string {
	switch permission {
	case AccountsRead, AccountsWrite:
		return []string{App, Resource, Namespace, Self}
	case AccountsList:
		return []string{App, Resource, Namespace}
	case PoliciesRead, PoliciesWrite, PoliciesOverrideVersion, PoliciesPurge:
		return []string{App}
	}
	return nil
}

// Internal returns the realm of an application's operators.
func Internal(app string) string { return "@internal:" + app }

// Grants says which permissions callers have.
type Grants interface {
	// Has reports whether an identity has a permission in a realm, for a subject with the
	// attributes of binding. It is called concurrently, must not block for long, and must not
	// change binding.
	Has(ctx context.Context, identity, permission, realm string, binding map[string]string) bool
}

// Subject is the subject of a call.
type Subject struct {
	App, Realm string
	Binding    map[string]string // see Attributes; App is added
	// Absolute says that only the application manages the resource: only the permission in its
	// internal realm counts.
	Absolute bool
}

// Check returns nil if an identity has a permission for a subject, else a *DeniedError.
func Check(ctx context.Context, g Grants, identity, permission string, s Subject) error {
	binding := make(map[string]string, 4)
	maps.Copy(binding, s.Binding)
	binding[App] = s.App
	if !s.Absolute && g.Has(ctx, identity, permission, s.Realm, binding) {
		return nil
	}
	if g.Has(ctx, identity, permission, Internal(s.App), binding) {
		return nil
	}
	return &DeniedError{Identity: identity, Permission: permission, Realm: s.Realm, App: s.App, Absolute: s.Absolute}
}

// DeniedError says which permission a caller lacks, and where.
type DeniedError struct {
	Identity, Permission string
	Realm, App           string
	Absolute             bool
}

// Error says what to grant.
func (e *DeniedError) Error() string {
	if e.Absolute {
		return fmt.Sprintf("%q needs %s in realm %q: the resource is absolute, which the same permission in realm %q does not cover",
			e.Identity, e.Permission, Internal(e.App), e.Realm)
	}
	return fmt.Sprintf("%q needs %s in realm %q or %q", e.Identity, e.Permission, e.Realm, Internal(e.App))
}

// Everybody grants everything to everybody.
type Everybody struct{}

// Has implements [Grants].
func (Everybody) Has(context.Context, string, string, string, map[string]string) bool { return true }

// Anybody is the identity of a grant that applies to every caller.
const Anybody = "*"

// Grant gives permissions in one realm to one identity.
type Grant struct {
	Identity    string            // or Anybody
	Realm       string            // such as "project:infra", or "@internal:APP"
	Permissions []string          // one or more
	When        map[string]string // required attribute values; an attribute that the call lacks never matches
}

// List is an immutable list of grants. The empty list grants nothing.
type List []Grant

// Has implements [Grants].
func (l List) Has(_ context.Context, identity, permission, realm string, binding map[string]string) bool {
	return slices.ContainsFunc(l, func(g Grant) bool {
		return (g.Identity == identity || g.Identity == Anybody) && g.Realm == realm &&
			slices.Contains(g.Permissions, permission) && g.holds(binding)
	})
}

// Knows reports whether the list has a grant for an identity.
func (l List) Knows(identity string) bool {
	return slices.ContainsFunc(l, func(g Grant) bool { return g.Identity == identity || g.Identity == Anybody })
}

func (g *Grant) holds(binding map[string]string) bool {
	for name, want := range g.When {
		if got, there := binding[name]; !there || got != want {
			return false
		}
	}
	return true
}
