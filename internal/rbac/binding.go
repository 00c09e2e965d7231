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

// Anybody is whoever calls, proven or not, as the identity of a binding.
const Anybody = "*"

// Binding gives a role or permissions to an identity in a scope. Identity, Role
// and Scope together name it.
type Binding struct {
	Identity    string   // whole; or KIND:*; or Anybody
	Role        string   // empty when Permissions are listed
	Permissions []string // sorted, each once; none when there is a role
	Scope       Scope
	By          string
	At          quota.Time
}

func compareBindings(a, b *Binding) int {
	return cmp.Or(cmp.Compare(a.Identity, b.Identity), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Scope, b.Scope))
}

// Permits returns what the binding gives.
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

// Validate returns what is wrong with a binding that somebody wants to make, in the
// form "field: value; what would be right". It is stricter than the log, which
// keeps words of newer versions.
func (b *Binding) Validate() error {
	if err := b.wellFormed(); err != nil {
		return err
	}
	if b.Role != "" {
		if _, ok := FindRole(b.Role); !ok {
			return fmt.Errorf("role: there is no role %q; there are %s", b.Role, strings.Join(RoleNames(), ", "))
		}
	}
	for _, name := range b.Permissions {
		p, ok := ParsePermission(name)
		if !ok {
			return fmt.Errorf("permissions: there is no permission %q; there are %s", name, strings.Join(PermissionNames(), ", "))
		}
		if !b.Scope.fits().Has(p) {
			return fmt.Errorf("scope: %s is never asked for in %s, so the binding would give nothing; bind it in %s", name, b.Scope, whereFits(p))
		}
	}
	if b.Permits() == 0 {
		return fmt.Errorf("scope: the role %s has no permission that is asked for in %s; bind it everywhere", b.Role, b.Scope)
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
	return "no scope, that is everywhere"
}

// wellFormed is what every replica asks of a binding.
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

// CheckIdentity returns what is wrong with a word as an identity.
func CheckIdentity(field, id string) error {
	switch {
	case id == "" || len(id) > MaxIdentity:
		return fmt.Errorf("%s: is %d bytes; must be 1 to %d", field, len(id), MaxIdentity)
	case !utf8.ValidString(id) || strings.ContainsFunc(id, control):
		return fmt.Errorf("%s: %q; must be UTF-8 without control characters", field, id)
	case id != Anybody && !strings.Contains(id, ":"):
		return fmt.Errorf("%s: %q; must be KIND:NAME, such as client:ci, token:ci, user:ann@example.org, group:sre, or * for anybody", field, id)
	}
	return nil
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

// normal returns the binding with its permissions in order.
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

func quote(s string) string { return strconv.Quote(s) }

// Token is a bearer token without its secret.
type Token struct {
	ID      string
	Name    string // its identity is token:NAME
	Hash    [hashSize]byte
	Expires quota.Time // 0 is never
	Comment string
	By      string
	At      quota.Time
}

// Identity returns who a bearer of the token is.
func (t *Token) Identity() string { return "token:" + t.Name }

// Expired says whether the token is good no more.
func (t *Token) Expired(now quota.Time) bool { return t.Expires != 0 && now >= t.Expires }

// Validate returns what is wrong with a token that somebody wants to make.
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
