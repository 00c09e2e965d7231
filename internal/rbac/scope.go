package rbac

import "strings"

// Scope is where a binding counts: everywhere, in one namespace or in one realm.
// Its form is "*", "namespace:NAME" or "realm:NAME".
type Scope string

// Everywhere is the scope of all that there is.
const Everywhere Scope = "*"

const (
	namespacePrefix = "namespace:"
	realmPrefix     = "realm:"
)

// Namespace returns the scope of one namespace.
func Namespace(name string) Scope { return Scope(namespacePrefix + name) }

// Realm returns the scope of one realm of durable quotas.
func Realm(name string) Scope { return Scope(realmPrefix + name) }

// fits returns the permissions that mean something in the scope.
func (s Scope) fits() Set {
	switch {
	case s == Everywhere:
		return everything
	case strings.HasPrefix(string(s), namespacePrefix):
		return inNamespace
	case strings.HasPrefix(string(s), realmPrefix):
		return inRealm
	}
	return 0
}

// String returns the scope as errors say it.
func (s Scope) String() string {
	if s == Everywhere || s == "" {
		return "everywhere"
	}
	kind, name, _ := strings.Cut(string(s), ":")
	return kind + " " + quote(name)
}
