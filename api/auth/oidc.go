package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// OIDC configures an issuer whose JWTs are accepted.
type OIDC struct {
	// Issuer is the URL of the issuer: https, or http on this machine. Its keys are found through
	// /.well-known/openid-configuration below the URL.
	Issuer string
	// Audience must be among the audiences of a JWT.
	Audience string
	// IdentityClaim names the claim with the user's name; empty means sub, which the issuer never
	// gives to two users. An email counts only if the claim email_verified is true.
	IdentityClaim string
	// GroupsClaim names the claim that lists groups; empty means groups.
	GroupsClaim string
	// Client fetches the keys; nil means a client with a timeout of five seconds.
	Client *http.Client
}

// Bounds.
const (
	maxJWT         = 12 << 10        // bytes
	maxGroups      = 256             // of one JWT; further groups are ignored
	jwtCacheTTL    = 5 * time.Minute // the longest time that a JWT is cached
	issuerCacheTTL = time.Hour       // how often the issuer is asked for its keys
	issuerRetry    = time.Minute     // and when it failed to answer, while its last keys are in use
	keysTrusted    = 24 * time.Hour  // how long its last keys are used when it does not answer
	fetchTimeout   = 5 * time.Second
	fetchBurst     = 4 // requests to the issuer that may go at once, and then
	fetchEvery     = 5 * time.Second
	maxKeys        = 1 << 20 // bytes of an answer of the issuer
)

// algorithms lists the accepted algorithms, all with public keys. With HS256, anybody who knows the
// public key could sign; with none, anybody at all.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// issuer verifies the JWTs of an OIDC issuer.
type issuer struct {
	OIDC
	now func() time.Time
	log *slog.Logger

	mu       sync.Mutex // held while the issuer is asked for the first time
	verifier *oidc.IDTokenVerifier
	until    time.Time // when the verifier's keys expire
	next     time.Time // when the issuer is asked again
	failed   error     // of the last request
}

func newIssuer(o OIDC, now func() time.Time, log *slog.Logger) (*issuer, error) {
	u, err := url.Parse(o.Issuer)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("auth.oidc.issuer: %q; must be a URL such as https://login.example.org", o.Issuer)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return nil, fmt.Errorf("auth.oidc.issuer: %q; must be https: with http, anyone on the network path could replace the keys", o.Issuer)
	case o.Audience == "":
		return nil, errors.New("auth.oidc.audience: is empty; must be the audience that tokens for this cluster have, such as quorate")
	}
	if o.GroupsClaim == "" {
		o.GroupsClaim = "groups"
	}
	base := o.Client
	if base == nil {
		base = &http.Client{}
	}
	client := *base
	client.Timeout = fetchTimeout
	client.Transport = newFetches(base.Transport, now)
	o.Client = &client
	return &issuer{OIDC: o, now: now, log: log}, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// verify returns the caller of a JWT, and when the JWT expires.
func (s *issuer) verify(ctx context.Context, token string) (*Caller, time.Time, error) {
	if len(token) > maxJWT {
		return nil, time.Time{}, bad("authorization: the JWT is %d bytes; at most %d", len(token), maxJWT)
	}
	if strings.Count(token, ".") != 2 {
		return nil, time.Time{}, bad("authorization: the token is neither of this cluster (those begin with quorate1t.) nor a JWT, which has three parts")
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, s.Client), fetchTimeout)
	defer cancel()
	v, err := s.provider(ctx)
	if err != nil {
		return nil, time.Time{}, bad("authorization: the JWT cannot be verified now: the issuer %s does not give its keys: %s", s.Issuer, within(err, token))
	}
	id, err := v.Verify(ctx, token)
	if err != nil {
		return nil, time.Time{}, s.refusal(err, token)
	}
	c, err := s.caller(id)
	return c, id.Expiry, err
}

// refusal returns the error for an invalid JWT.
func (s *issuer) refusal(err error, token string) error {
	if expired, ok := errors.AsType[*oidc.TokenExpiredError](err); ok {
		return bad("authorization: the JWT expired at %s; get a new one", expired.Expiry.UTC().Format(time.RFC3339))
	}
	return bad("authorization: the JWT is not valid: %s", within(err, token))
}

// within returns an error's text, shortened and without any part of the token.
func within(err error, token string) string {
	text := strings.TrimPrefix(err.Error(), "oidc: ")
	for part := range strings.SplitSeq(token, ".") {
		if len(part) > 8 {
			text = strings.ReplaceAll(text, part, "[...]")
		}
	}
	if len(text) > 300 {
		text = text[:300] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}

// provider returns a verifier with the issuer's keys, which are fetched for the first call and once
// an hour. All calls wait for the first answer, but only one call waits for each later answer. Until
// it arrives, the others use the last keys, and so do all for up to a day if the issuer does not
// answer.
func (s *issuer) provider(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if !now.Before(s.until) {
		s.verifier = nil
	}
	again := s.verifier != nil
	switch {
	case again && now.Before(s.next):
		return s.verifier, nil
	case now.Before(s.next): // callers do not queue for another failure
		return nil, s.failed
	case again:
		s.next = now.Add(issuerRetry)
		s.mu.Unlock()
	}
	v, err := s.fetch(ctx)
	if again {
		s.mu.Lock()
	}
	s.failed = err
	switch {
	case err != nil && again:
		s.log.Warn("the OIDC issuer does not answer; its cached keys stay in use", "issuer", s.Issuer, "until", s.until, "err", err)
	case err != nil:
		s.next = s.now().Add(fetchEvery)
		return nil, err
	default:
		s.verifier, s.next, s.until = v, s.now().Add(issuerCacheTTL), s.now().Add(keysTrusted)
	}
	return s.verifier, nil
}

// unsigned is a JWT that no key verifies, so that a key set fetches its keys.
const unsigned = "eyJhbGciOiJFUzI1NiJ9.e30.AA"

// fetch returns a verifier with the keys that the issuer has now.
func (s *issuer) fetch(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	// Not ended by this caller, for whose answer others wait.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
	defer cancel()
	p, err := oidc.NewProvider(ctx, s.Issuer)
	if err != nil {
		return nil, err
	}
	var at struct {
		Keys string `json:"jwks_uri"`
	}
	if err := p.Claims(&at); err != nil {
		return nil, err
	}
	keys := oidc.NewRemoteKeySet(ctx, at.Keys)
	// This error has no type of its own. TestKeysStay fails if its text changes.
	if _, err := keys.VerifySignature(ctx, unsigned); err != nil && strings.HasPrefix(err.Error(), "fetching keys") {
		return nil, err
	}
	return oidc.NewVerifier(s.Issuer, keys, &oidc.Config{ClientID: s.Audience, SupportedSigningAlgs: algorithms, Now: s.now}), nil
}

// caller returns the caller that the claims name.
func (s *issuer) caller(id *oidc.IDToken) (*Caller, error) {
	claims := map[string]any{}
	if err := id.Claims(&claims); err != nil {
		return nil, bad("authorization: the claims of the JWT cannot be read")
	}
	name := id.Subject
	if s.IdentityClaim != "" {
		if name, _ = claims[s.IdentityClaim].(string); name == "" {
			return nil, bad("authorization: the JWT has no claim %s, which auth.oidc.identity_claim requires", s.IdentityClaim)
		}
	}
	if name == "" { // all users without a name would be one
		return nil, bad("authorization: the JWT has no claim sub, which names its user; set auth.oidc.identity_claim if another claim does")
	}
	// Only true counts: otherwise a user who can set any address in their issuer profile could
	// impersonate others.
	if s.IdentityClaim == "email" && claims["email_verified"] != true {
		return nil, bad("authorization: the email of the JWT is not verified (its claim email_verified is not true), and auth.oidc.identity_claim asks for the email")
	}
	c, err := newCaller("user:"+name, JWT, groupsOf(claims[s.GroupsClaim]))
	if err != nil {
		return nil, bad("authorization: the JWT: %v", err)
	}
	return c, nil
}

// groupsOf parses a claim that is a list of names, or one name.
func groupsOf(claim any) (out []string) {
	list, _ := claim.([]any)
	if one, ok := claim.(string); ok {
		list = []any{one}
	}
	for _, g := range list[:min(len(list), maxGroups)] {
		if name, ok := g.(string); ok && name != "" {
			out = append(out, "group:"+name)
		}
	}
	return out
}
