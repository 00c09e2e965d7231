package rbac

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quorate/quorate/internal/quota"
)

// Bounds.
const (
	MaxBindings    = 10_000
	MaxTokens      = 10_000
	MaxIdentity    = quota.MaxNameLen    // bytes
	MaxScope       = 512                 // bytes, with its kind
	MaxComment     = quota.MaxCommentLen // bytes
	maxPermissions = 64                  // in one binding
	maxWord        = 64                  // bytes of the name of a role or permission
	hashSize       = 32
)

// Anybody is the identity of a binding for all callers, authenticated or not.
const Anybody = "*"

// Binding grants a role or permissions to an identity in a scope. Identity, Role and Scope identify
// it.
type Binding struct {
	Identity    string   // an identity, KIND:*, or Anybody
	Role        string   // empty if Permissions is set
	Permissions []string // sorted, unique; empty if Role is set
	Scope       Scope
	By          string
	At          quota.Time
}

func compareBindings(a, b *Binding) int {
	return cmp.Or(cmp.Compare(a.Identity, b.Identity), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Scope, b.Scope))
}

// Permits returns the permissions that the binding grants.
func (b *Binding) Permits() Set {
	var s Set
	if r, ok := FindRole(b.Role); ok {
		s = r.Permissions
	}
	for _, name := range b.Permissions {
		if p, ok := ParsePermission(name); ok {
			s |= SetOf(p)
		}
	}
	return s & b.Scope.fits()
}

// Validate returns the error in a binding that a caller wants to create, as "field: value; what
// would be right". It is stricter than the log, which keeps names of newer versions.
func (b *Binding) Validate() error {
	if err := b.wellFormed(); err != nil {
		return err
	}
	if b.Role != "" {
		if _, ok := FindRole(b.Role); !ok {
			return fmt.Errorf("role: unknown role %q; known: %s", b.Role, strings.Join(RoleNames(), ", "))
		}
	}
	for _, name := range b.Permissions {
		p, ok := ParsePermission(name)
		if !ok {
			return fmt.Errorf("permissions: unknown permission %q; known: %s", name, strings.Join(PermissionNames(), ", "))
		}
		if !b.Scope.fits().Has(p) {
			return fmt.Errorf("scope: %s is never asked for in %s, so the binding would give nothing; bind it in %s", name, b.Scope, whereFits(p))
		}
	}
	if b.Permits() == 0 {
		return fmt.Errorf("scope: no permission of the role %s applies in %s; bind it everywhere", b.Role, b.Scope)
	}
	return nil
}

func whereFits(p Permission) string {
	switch {
	case inNamespace.Has(p):
		return "a namespace or everywhere"
	case inRealm.Has(p):
		return "a realm or everywhere"
	}
	return "no scope, which means everywhere"
}

// wellFormed checks what every replica requires of a binding.
func (b *Binding) wellFormed() error {
	if err := CheckIdentity("identity", b.Identity); err != nil {
		return err
	}
	if (b.Role == "") == (len(b.Permissions) == 0) {
		return fmt.Errorf("role: is %q with %d permissions; give a role or permissions, not both", b.Role, len(b.Permissions))
	}
	if len(b.Permissions) > maxPermissions {
		return fmt.Errorf("permissions: are %d; at most %d", len(b.Permissions), maxPermissions)
	}
	for _, word := range append([]string{b.Role}, b.Permissions...) {
		if len(word) > maxWord || !utf8.ValidString(word) {
			return fmt.Errorf("permissions: a name of %d bytes; at most %d, of UTF-8", len(word), maxWord)
		}
	}
	return b.Scope.check()
}

func (s Scope) check() error {
	_, name, named := strings.Cut(string(s), ":")
	switch {
	case s == Everywhere:
		return nil
	case len(s) > MaxScope || !utf8.ValidString(string(s)):
		return fmt.Errorf("scope: is %d bytes; at most %d, of UTF-8", len(s), MaxScope)
	case !named || name == "" || s.fits() == 0:
		return fmt.Errorf("scope: %q; must be *, namespace:NAME or realm:NAME", string(s))
	}
	return nil
}

// Scope is where a binding applies: "*" (everywhere), "namespace:NAME" or "realm:NAME".
type Scope string

// Everywhere is the scope that contains all others.
const Everywhere Scope = "*"

const (
	namespacePrefix = "namespace:"
	realmPrefix     = "realm:"
)

// Namespace returns the scope of one namespace.
func Namespace(name string) Scope { return Scope(namespacePrefix + name) }

// Realm returns the scope of one realm of durable quotas.
func Realm(name string) Scope { return Scope(realmPrefix + name) }

// fits returns the permissions that can be granted in the scope.
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

// String returns the scope as used in errors.
func (s Scope) String() string {
	if s == Everywhere || s == "" {
		return "everywhere"
	}
	kind, name, _ := strings.Cut(string(s), ":")
	return kind + " " + strconv.Quote(name)
}

// CheckIdentity returns an error that names the field unless id is a valid identity.
func CheckIdentity(field, id string) error {
	switch {
	case id == "" || len(id) > MaxIdentity:
		return fmt.Errorf("%s: is %d bytes; must be 1 to %d", field, len(id), MaxIdentity)
	case !utf8.ValidString(id) || strings.ContainsFunc(id, control):
		return fmt.Errorf("%s: %q; must be UTF-8 without control characters", field, id)
	case id != Anybody && !strings.Contains(id, ":"):
		return fmt.Errorf("%s: %q; must be KIND:NAME, such as client:ci, token:ci, user:ann@example.org, group:sre, or * for anyone", field, id)
	}
	return nil
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

// normal returns the binding in canonical form: scope set, permissions sorted and unique.
func (b Binding) normal() Binding {
	if b.Scope == "" {
		b.Scope = Everywhere
	}
	b.Permissions = slices.Compact(slices.Sorted(slices.Values(b.Permissions)))
	if len(b.Permissions) == 0 {
		b.Permissions = nil
	}
	return b
}

// Token is a bearer token without its secret.
type Token struct {
	ID      string
	Name    string // its identity is token:NAME
	Hash    [hashSize]byte
	Expires quota.Time // 0 means never
	Comment string
	By      string
	At      quota.Time
}

// Identity returns the identity of the token's bearer.
func (t *Token) Identity() string { return "token:" + t.Name }

// Expired reports whether the token has expired.
func (t *Token) Expired(now quota.Time) bool { return t.Expires != 0 && now >= t.Expires }

// Validate returns the error in a token that a caller wants to create.
func (t *Token) Validate() error {
	if err := quota.CheckName("name", t.Name); err != nil {
		return err
	}
	if err := CheckIdentity("name", t.Identity()); err != nil {
		return err
	}
	if len(t.Comment) > MaxComment || !utf8.ValidString(t.Comment) {
		return fmt.Errorf("comment: is %d bytes; at most %d, of UTF-8", len(t.Comment), MaxComment)
	}
	if t.ID == "" || len(t.ID) > maxWord {
		return fmt.Errorf("id: is %d bytes; must be 1 to %d", len(t.ID), maxWord)
	}
	return nil
}
