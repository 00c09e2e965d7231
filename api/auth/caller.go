package auth

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/internal/rbac"
)

// Credential is the kind of proof of a caller's identity.
type Credential uint8

// Kinds of credentials.
const (
	None        Credential = iota // nothing: the caller is Anonymous
	Unverified                    // the caller's own claim, with authentication off
	Certificate                   // a client certificate
	Token                         // a bearer token of the cluster
	JWT                           // a token of an OIDC issuer
)

// String returns the word for WhoAmI and the audit log.
func (c Credential) String() string {
	return [...]string{"none", "unverified", "certificate", "token", "jwt"}[c]
}

// Anonymous is the identity of a caller that names none.
const Anonymous = "anonymous:anonymous"

// Shown returns an identity for people: "anonymous" for that of a caller that names none.
func Shown(identity string) string {
	if identity == Anonymous {
		return "anonymous"
	}
	return identity
}

// Admin is the identity with the built-in role admin.
const Admin = "client:admin"

// Caller is the caller of a call. It is immutable.
type Caller struct {
	Identity   string
	Credential Credential
	Groups     []string // of a JWT, each with the prefix "group:"
	Serial     string   // the id of a token; empty for other credentials

	names []string // the names that bindings may use for the caller
}

// newCaller returns a caller, or an error if the identity is malformed.
func newCaller(identity string, c Credential, groups []string) (*Caller, error) {
	if err := rbac.CheckIdentity("identity", identity); err != nil {
		return nil, err
	}
	names := make([]string, 0, 3+len(groups))
	names = append(names, identity, rbac.Anybody)
	if kind := rbac.Kind(identity); kind != "" {
		names = append(names, kind)
	}
	return &Caller{Identity: identity, Credential: c, Groups: groups, names: append(names, groups...)}, nil
}

// Authenticated reports whether a credential proves the caller's identity.
func (c *Caller) Authenticated() bool { return c.Credential != None && c.Credential != Unverified }

var anonymous = &Caller{Identity: Anonymous, names: []string{Anonymous, rbac.Anybody}}

// UnverifiedCaller returns a caller with an unproven identity, for nodes without authentication.
func UnverifiedCaller(identity string) *Caller {
	if identity == "" || identity == Anonymous {
		return anonymous
	}
	return &Caller{Identity: identity, Credential: Unverified}
}

// Key is the context key of the caller.
type Key struct{}

// With returns a context that carries a caller.
func With(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, Key{}, c)
}

// From returns the caller that a context carries, or nil.
func From(ctx context.Context) *Caller {
	c, _ := ctx.Value(Key{}).(*Caller)
	return c
}

// CredentialError says what is wrong with a credential. It never contains any part of the
// credential.
type CredentialError struct{ Detail string }

// Error implements error.
func (e *CredentialError) Error() string { return e.Detail }

func bad(format string, args ...any) error {
	return &CredentialError{fmt.Sprintf(format, args...)}
}

// DeniedError says which permission a caller lacks, and where.
type DeniedError struct {
	Caller     *Caller
	Permission string // empty if any credential would do
	Scope      rbac.Scope
	Method     string
	Has        []rbac.Scope // where the caller has it, for a call that could have named one of these scopes
}

// Error returns the missing permission and the binding that would grant it.
func (e *DeniedError) Error() string {
	who := fmt.Sprintf("%q", e.Caller.Identity)
	if e.Caller.Credential == None {
		who = "the call carries no credential; its caller"
	}
	switch e.Permission {
	case "":
		return who + " needs a credential for " + e.Method
	case unlisted:
		return fmt.Sprintf("%s: not allowed for any caller, because the table of permissions does not list it", e.Method)
	}
	if e.Scope == "" {
		return fmt.Sprintf("%s needs %s", who, e.Permission)
	}
	return fmt.Sprintf("%s needs %s %s", who, e.Permission, in(e.Scope)) + e.instead()
}

// instead suggests scopes in which the caller has the permission.
func (e *DeniedError) instead() string {
	switch n := len(e.Has); n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("; it has it %s: ask for that one alone", in(e.Has[0]))
	default:
		return fmt.Sprintf("; it has it %s, and in %d more: ask for one of them", in(e.Has[0]), n-1)
	}
}

// unlisted replaces the permission of a method that is not in the table.
const unlisted = "unlisted"

func in(s rbac.Scope) string {
	if s == rbac.Everywhere {
		return "everywhere"
	}
	return "in " + s.String()
}
