package auth

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/quorate/quorate/api/access"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// Config configures a guard.
type Config struct {
	// Table returns the cluster's bindings and tokens. The guard calls it for every call,
	// concurrently.
	Table func() *rbac.Table
	// Bindings are the bindings in the node's settings.
	Bindings []rbac.Binding
	// Grants are the grants in the settings, for AccountAdminService; nil means none.
	Grants access.Grants
	// Certificate returns the identity in the certificate of a verified connection. It returns
	// false if the connection has no certificate, and an error if the certificate is no longer
	// valid. A nil Certificate ignores certificates.
	Certificate func(tls.ConnectionState) (pki.Identity, bool, error)
	// OIDC is the issuer whose JWTs are accepted; nil means none.
	OIDC *OIDC
	// Now is the clock; nil means the system clock.
	Now func() time.Time
	// Logger logs errors of the issuer; nil discards them.
	Logger *slog.Logger
}

// ByStore returns a Config.Certificate that checks each connection again as the store's handshakes
// do, so that a removed CA and an expired certificate also end open connections.
func ByStore(s *pki.Store) func(tls.ConnectionState) (pki.Identity, bool, error) {
	return func(cs tls.ConnectionState) (pki.Identity, bool, error) {
		if err := s.CheckCaller(pki.APIPort, cs); err != nil {
			return pki.Identity{}, false, err
		}
		return s.Caller(cs)
	}
}

// Guard identifies and authorizes callers. Its methods are safe for concurrent use. A nil Guard
// means that authentication is off and everybody may do everything.
type Guard struct {
	cfg      Config
	settings *rbac.Table
	builtIn  *rbac.Table
	issuer   *issuer // nil: no JWTs

	certs memory[*x509.Certificate]
	jwts  memory[[sha256.Size]byte] // for jwtCacheTTL
	past  memory[[sha256.Size]byte] // JWTs that were verified, until they expire
	bears memory[*rbac.Token]       // of the current table, or of an earlier one
}

// New returns a guard. The error names the binding or setting at fault.
func New(c Config) (*Guard, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Table == nil {
		empty := &rbac.Table{}
		c.Table = func() *rbac.Table { return empty }
	}
	g := &Guard{cfg: c}
	var err error
	if g.settings, err = rbac.NewTable(c.Bindings); err != nil {
		return nil, fmt.Errorf("access.bindings%w", err)
	}
	if g.builtIn, err = rbac.NewTable([]rbac.Binding{{Identity: Admin, Role: rbac.Admin}}); err != nil {
		return nil, err
	}
	if c.OIDC != nil {
		if g.issuer, err = newIssuer(*c.OIDC, c.Now, c.Logger); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// certCacheTTL is how long the owner of a certificate is cached, and so the longest time that an open
// connection outlives the trust in its certificate.
const certCacheTTL = 10 * time.Second

// Quick identifies the caller without blocking. state describes the connection, nil without TLS;
// authorization holds the header of that name. Quick returns nil and no error if a JWT has to be
// verified: call Identify.
func (g *Guard) Quick(state *tls.ConnectionState, authorization []string) (*Caller, error) {
	token, err := bearerOf(authorization)
	switch {
	case err != nil:
		return nil, err
	case token == "":
		return g.byCertificate(state)
	case strings.HasPrefix(token, "quorate1"):
		return g.byToken(token)
	case g.issuer == nil:
		return nil, bad("authorization: not a token of this cluster (those begin with quorate1t.), and this node accepts no JWTs; see auth.oidc in its settings")
	}
	return g.jwts.get(sha256.Sum256([]byte(token)), g.cfg.Now()), nil
}

// Before returns the caller of a JWT when it was last verified, or nil if unknown or if the JWT has
// expired. The result proves nothing at present: call Identify for that.
func (g *Guard) Before(authorization []string) *Caller {
	token, err := bearerOf(authorization)
	if err != nil {
		return nil
	}
	return g.past.get(sha256.Sum256([]byte(token)), g.cfg.Now())
}

// Identify is like Quick, but waits for the keys of a JWT's issuer if it must.
func (g *Guard) Identify(ctx context.Context, state *tls.ConnectionState, authorization []string) (*Caller, error) {
	c, err := g.Quick(state, authorization)
	if c != nil || err != nil {
		return c, err
	}
	token, err := bearerOf(authorization)
	if err != nil {
		return nil, err
	}
	c, expires, err := g.issuer.verify(ctx, token)
	if err != nil {
		return nil, err
	}
	again, sum := g.cfg.Now().Add(jwtCacheTTL), sha256.Sum256([]byte(token))
	if expires.Before(again) {
		again = expires
	}
	g.jwts.put(sum, c, again)
	g.past.put(sum, c, expires)
	return c, nil
}

// bearerOf returns the token of a header, or "".
func bearerOf(authorization []string) (string, error) {
	switch len(authorization) {
	case 0:
		return "", nil
	case 1:
	default:
		return "", bad("authorization: the header was sent %d times; send it once", len(authorization))
	}
	scheme, token, _ := strings.Cut(authorization[0], " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", bad("authorization: must be Bearer, a space, and a token")
	}
	return token, nil
}

func (g *Guard) byCertificate(state *tls.ConnectionState) (*Caller, error) {
	if state == nil || len(state.PeerCertificates) == 0 || g.cfg.Certificate == nil {
		return anonymous, nil
	}
	leaf, now := state.PeerCertificates[0], g.cfg.Now()
	if c := g.certs.get(leaf, now); c != nil {
		return c, nil
	}
	id, there, err := g.cfg.Certificate(*state)
	if err != nil {
		return nil, bad("client certificate: %v", err)
	}
	if !there {
		return anonymous, nil
	}
	c, err := newCaller(id.Caller(), Certificate, nil)
	if err != nil {
		return nil, bad("client certificate: %v", err)
	}
	g.certs.put(leaf, c, now.Add(certCacheTTL))
	return c, nil
}

func (g *Guard) byToken(text string) (*Caller, error) {
	given, err := pki.ParseBearer(text)
	if err != nil {
		return nil, bad("authorization: %v", err)
	}
	t := g.cfg.Table().Token(given.ID)
	var want pki.Hash // matches no existing secret
	if t != nil {
		want = t.Hash
	}
	if !given.Secret.Matches(want) || t == nil {
		return nil, bad("authorization: the bearer token is not known; it may have been revoked")
	}
	now := g.cfg.Now()
	if t.Expired(quota.Time(now.UnixNano())) {
		return nil, bad("authorization: the bearer token of %s expired at %s", t.Identity(), time.Unix(0, int64(t.Expires)).UTC().Format(time.RFC3339))
	}
	if c := g.bears.get(t, now); c != nil {
		return c, nil
	}
	c, err := newCaller(t.Identity(), Token, nil)
	if err != nil {
		return nil, bad("authorization: %v", err)
	}
	c.Serial = t.ID
	g.bears.put(t, c, now.Add(certCacheTTL))
	return c, nil
}

// Has reports whether a caller has a permission in a scope.
func (g *Guard) Has(c *Caller, p rbac.Permission, in rbac.Scope) bool {
	return g.cfg.Table().Has(c.names, p, in) || g.settings.Has(c.names, p, in) || g.builtIn.Has(c.names, p, in)
}

// Somewhere reports whether a caller has a permission in any scope.
func (g *Guard) Somewhere(c *Caller, p rbac.Permission) bool {
	return g.cfg.Table().Somewhere(c.names, p) || g.settings.Somewhere(c.names, p) || g.builtIn.Somewhere(c.names, p)
}

// Kept says where a binding is stored.
type Kept string

// Places of bindings.
const (
	InCluster  Kept = "cluster"
	InSettings Kept = "settings"
	BuiltIn    Kept = "built_in"
)

// KeptBinding is a binding and the place where it is stored.
type KeptBinding struct {
	rbac.Binding
	In Kept
}

// Bindings returns all active bindings on this node, or only the caller's if c is not nil.
func (g *Guard) Bindings(c *Caller) (out []KeptBinding) {
	for _, t := range []struct {
		table *rbac.Table
		in    Kept
	}{{g.builtIn, BuiltIn}, {g.settings, InSettings}, {g.cfg.Table(), InCluster}} {
		list := t.table.Bindings()
		if c != nil {
			list = t.table.Of(c.names)
		}
		for _, b := range list {
			out = append(out, KeptBinding{b, t.in})
		}
	}
	return out
}

// Grants returns the permissions of callers on AccountAdminService, from bindings and from the
// grants in the settings.
func (g *Guard) Grants() access.Grants { return grants{g} }

type grants struct{ g *Guard }

// Has implements [access.Grants]. Bindings apply only if identity is the identity of the caller in
// ctx.
func (s grants) Has(ctx context.Context, identity, permission, realm string, attributes map[string]string) bool {
	if c := From(ctx); c != nil && c.Identity == identity {
		if p, ok := rbac.ParsePermission(permission); ok && s.g.Has(c, p, rbac.Realm(realm)) {
			return true
		}
	}
	return s.g.cfg.Grants != nil && s.g.cfg.Grants.Has(ctx, identity, permission, realm, attributes)
}
