package auth

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/rbac"
)

// Credential is what proves who a caller is.
type Credential uint8

// The credentials.
const (
	None        Credential = iota // nothing: the caller is Anonymous
	Said                          // the caller's word, where authentication is off
	Certificate                   // a client certificate
	Token                         // a bearer token of the cluster
	JWT                           // a token of an OIDC issuer
)

// String returns the word for WhoAmI and the audit log.
func (c Credential) String() string {
	return [...]string{"none", "said", "certificate", "token", "jwt"}[c]
}

// Anonymous is the identity of callers who do not say who they are.
const Anonymous = "anonymous:anonymous"

// Admin is the identity that has the role admin from the first.
const Admin = "client:admin"

// Caller is who makes a call. It is never changed.
type Caller struct {
	Identity   string
	Credential Credential
	Groups     []string // of a JWT, each with "group:" before it
	Serial     string   // which credential: the id of a token; empty for others

	names []string // by which bindings may mean the caller
}

// newCaller returns an error if the identity cannot be one.
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

// Proven reports whether a credential proves the caller's identity.
func (c *Caller) Proven() bool { return c.Credential != None && c.Credential != Said }

var anonymous = &Caller{Identity: Anonymous, names: []string{Anonymous, rbac.Anybody}}

// Spoken returns a caller who is taken at their word: for nodes that do not check
// who calls.
func Spoken(identity string) *Caller {
	if identity == "" || identity == Anonymous {
		return anonymous
	}
	return &Caller{Identity: identity, Credential: Said}
}

// identityOf returns the identity of a certificate's owner.
func identityOf(id pki.Identity) string {
	if id.Foreign() {
		return id.Name
	}
	return id.Kind.String() + ":" + id.Name
}

// Key is under what a context has its caller.
type Key struct{}

// With returns a context that carries a caller.
func With(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, Key{}, c)
}

// From returns the caller whom a context carries, nil if none.
func From(ctx context.Context) *Caller {
	c, _ := ctx.Value(Key{}).(*Caller)
	return c
}

// CredentialError says what is wrong with a credential. It never has any of it.
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
	Has        []rbac.Scope // where the caller has it, of a call that could have named one of these
}

// Error says what would have to be bound to whom.
func (e *DeniedError) Error() string {
	who := fmt.Sprintf("%q", e.Caller.Identity)
	if e.Caller.Credential == None {
		who = "the call carries no credential; whoever makes it"
	}
	switch e.Permission {
	case "":
		return who + " needs a credential for " + e.Method
	case unlisted:
		return fmt.Sprintf("%s: nobody may call it, because it is not in the table of permissions", e.Method)
	}
	if e.Scope == "" {
		return fmt.Sprintf("%s needs %s", who, e.Permission)
	}
	return fmt.Sprintf("%s needs %s %s", who, e.Permission, in(e.Scope)) + e.instead()
}

// instead leads to what the caller may ask.
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

// unlisted stands for the permission of methods that the table does not have.
const unlisted = "unlisted"

func in(s rbac.Scope) string {
	if s == rbac.Everywhere {
		return "everywhere"
	}
	return "in " + s.String()
}
