package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/rbac"
)

func addToken(t *rbac.Token) *raftlogv1.ChangeSecurity {
	return &raftlogv1.ChangeSecurity{Change: &raftlogv1.ChangeSecurity_AddToken{AddToken: rbac.EncodeToken(t)}}
}

func setBinding(b *rbac.Binding) *raftlogv1.ChangeSecurity {
	return &raftlogv1.ChangeSecurity{Change: &raftlogv1.ChangeSecurity_SetBinding{SetBinding: rbac.EncodeBinding(b)}}
}

// fakeIssuer is an OIDC issuer with one key at a time.
type fakeIssuer struct {
	*httptest.Server
	mu    sync.Mutex
	kid   string
	key   *ecdsa.PrivateKey
	rsa   *rsa.PrivateKey
	asked atomic.Int32
	down  atomic.Bool
	keys  atomic.Pointer[http.HandlerFunc] // if not nil, answers requests for keys
}

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

func newFakeIssuer(t *testing.T) *fakeIssuer {
	t.Helper()
	f := &fakeIssuer{rsa: rsaKey()}
	f.rotate(t, "k1")
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.Close)
	return f
}

func (f *fakeIssuer) rotate(t *testing.T, kid string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kid, f.key = kid, key
}

func (f *fakeIssuer) serve(w http.ResponseWriter, r *http.Request) {
	f.asked.Add(1)
	if f.down.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": f.URL, "jwks_uri": f.URL + "/keys", "id_token_signing_alg_values_supported": []string{"ES256", "HS256", "none"}})
	case "/keys":
		if other := f.keys.Load(); other != nil {
			(*other)(w, r)
			return
		}
		num := func(n *big.Int, size int) string {
			return base64.RawURLEncoding.EncodeToString(n.FillBytes(make([]byte, size)))
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{
			map[string]string{"kty": "EC", "crv": "P-256", "kid": f.kid, "alg": "ES256", "x": num(f.key.X, 32), "y": num(f.key.Y, 32)},
			map[string]string{"kty": "RSA", "kid": "r1", "alg": "RS256", "n": num(f.rsa.N, 256), "e": num(big.NewInt(int64(f.rsa.E)), 3)},
		}})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func encodePart(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// jwt signs claims with the current key.
func (f *fakeIssuer) jwt(t *testing.T, claims map[string]any) string {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	signed := encodePart(map[string]string{"alg": "ES256", "kid": f.kid, "typ": "JWT"}) + "." + encodePart(claims)
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, f.key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

func (w *world) claims(f *fakeIssuer, more map[string]any) map[string]any {
	out := map[string]any{"iss": f.URL, "aud": "quorate", "sub": "u-17", "exp": w.now.Add(time.Hour).Unix(), "iat": w.now.Unix()}
	maps.Copy(out, more)
	for k, v := range out {
		if v == nil {
			delete(out, k)
		}
	}
	return out
}

func oidcWorld(t *testing.T, o OIDC) (*world, *fakeIssuer) {
	t.Helper()
	f := newFakeIssuer(t)
	o.Issuer, o.Audience = f.URL, "quorate"
	return newWorld(t, Config{OIDC: &o}), f
}

func (w *world) identify(t *testing.T, token string) (*Caller, error) {
	t.Helper()
	return w.Identify(t.Context(), nil, []string{"Bearer " + token})
}

// TestClaims checks the caller that a JWT names.
func TestClaims(t *testing.T) {
	w, f := oidcWorld(t, OIDC{})
	named, g := oidcWorld(t, OIDC{IdentityClaim: "preferred_username", GroupsClaim: "roles"})
	mail, h := oidcWorld(t, OIDC{IdentityClaim: "email"})
	many := make([]any, 300)
	for i := range many {
		many[i] = "g"
	}
	for _, c := range []struct {
		w      *world
		f      *fakeIssuer
		claims map[string]any
		want   string
		groups []string
	}{
		{w, f, nil, "user:u-17", nil},
		{w, f, map[string]any{"email": "ann@example.org", "email_verified": true, "groups": []string{"sre", "dev"}}, "user:u-17", []string{"group:sre", "group:dev"}},
		{mail, h, map[string]any{"email": "ann@example.org", "email_verified": true}, "user:ann@example.org", nil},
		{w, f, map[string]any{"groups": "one"}, "user:u-17", []string{"group:one"}},
		{w, f, map[string]any{"groups": []any{1, "", "x"}}, "user:u-17", []string{"group:x"}},
		{w, f, map[string]any{"aud": []string{"other", "quorate"}}, "user:u-17", nil},
		{named, g, map[string]any{"preferred_username": "ann", "email": "x@y", "roles": []string{"a"}, "groups": []string{"b"}}, "user:ann", []string{"group:a"}},
	} {
		got, err := c.w.identify(t, c.f.jwt(t, c.w.claims(c.f, c.claims)))
		if err != nil || got.Identity != c.want || got.Credential != JWT || !slices.Equal(got.Groups, c.groups) {
			t.Errorf("%v: %+v, %v", c.claims, got, err)
		}
	}
	if c, err := w.identify(t, f.jwt(t, w.claims(f, map[string]any{"groups": many}))); err != nil || len(c.Groups) != maxGroups {
		t.Errorf("many groups: %v", err)
	}
	c, err := named.identify(t, g.jwt(t, named.claims(g, nil)))
	refused(t, c, err, "the JWT has no claim preferred_username, which auth.oidc.identity_claim requires")
	c, err = w.identify(t, f.jwt(t, w.claims(f, map[string]any{"sub": strings.Repeat("x", 200)})))
	refused(t, c, err, "identity: is 205 bytes")
	for _, sub := range []any{nil, ""} {
		c, err = w.identify(t, f.jwt(t, w.claims(f, map[string]any{"sub": sub})))
		refused(t, c, err, "the JWT has no claim sub, which names its user")
	}
}

// TestBadJWTs checks that each is refused with its fault, and that the error contains no part of
// the JWT.
func TestBadJWTs(t *testing.T) {
	w, f := oidcWorld(t, OIDC{})
	stranger := newFakeIssuer(t)
	good := f.jwt(t, w.claims(f, nil))
	part := strings.Split(good, ".")
	public, err := x509.MarshalPKIXPublicKey(&f.rsa.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	hs := func(secret []byte, kid string) string {
		signed := encodePart(map[string]string{"alg": "HS256", "kid": kid}) + "." + part[1]
		m := hmac.New(sha256.New, secret)
		m.Write([]byte(signed))
		return signed + "." + base64.RawURLEncoding.EncodeToString(m.Sum(nil))
	}
	for name, c := range map[string]struct{ token, want string }{
		"expired":                             {f.jwt(t, w.claims(f, map[string]any{"exp": w.now.Add(-time.Second).Unix()})), "the JWT expired at 2027-01-15T07:59:59Z"},
		"without an end":                      {f.jwt(t, w.claims(f, map[string]any{"exp": nil})), "expired"},
		"not yet":                             {f.jwt(t, w.claims(f, map[string]any{"nbf": w.now.Add(time.Hour).Unix()})), "not before"},
		"for others":                          {f.jwt(t, w.claims(f, map[string]any{"aud": "somebody"})), `expected audience "quorate"`},
		"for nobody":                          {f.jwt(t, w.claims(f, map[string]any{"aud": nil})), `expected audience "quorate"`},
		"of another issuer":                   {f.jwt(t, w.claims(f, map[string]any{"iss": "https://evil.example"})), "issued by a different provider"},
		"signed by a stranger":                {stranger.jwt(t, w.claims(f, nil)), "failed to verify id token signature"},
		"not signed":                          {encodePart(map[string]string{"alg": "none"}) + "." + part[1] + ".", "unexpected signature algorithm"},
		"HS256 with the public key":           {hs(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), "r1"), "unexpected signature algorithm"},
		"HS256 with the public key, as it is": {hs(public, "r1"), "unexpected signature algorithm"},
		"other claims under the signature":    {part[0] + "." + encodePart(w.claims(f, map[string]any{"sub": "admin"})) + "." + part[2], "failed to verify"},
		"rubbish":                             {"a.b.c", "the JWT is not valid"},
		"two parts":                           {part[0] + "." + part[1], "nor a JWT, which has three parts"},
		"large":                               {good + strings.Repeat("x", maxJWT), "bytes; at most 12288"},
	} {
		t.Run(name, func(t *testing.T) {
			w.now = w.now.Add(fetchEvery * fetchBurst) // each may ask for keys
			got, err := w.identify(t, c.token)
			refused(t, got, err, c.want, c.token)
		})
	}
	if _, err := w.identify(t, good); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

// TestKeysRotate checks that a new key is fetched when a JWT names it, and that a JWT with an old
// key is valid as long as it is cached.
func TestKeysRotate(t *testing.T) {
	w, f := oidcWorld(t, OIDC{})
	if f.asked.Load() != 0 {
		t.Error("the issuer was asked before the first JWT came")
	}
	old := f.jwt(t, w.claims(f, map[string]any{"exp": w.now.Add(10_000 * time.Hour).Unix()}))
	for range 3 {
		if _, err := w.identify(t, old); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.asked.Load(); n != 2 {
		t.Errorf("asked %d times; want once for the place of the keys, and once for them", n)
	}
	if c, err := w.Quick(nil, []string{"Bearer " + old}); err != nil || c == nil {
		t.Errorf("it is not remembered: %v", err)
	}
	f.rotate(t, "k2")
	// The key set answers its waiting callers a moment before it stores the new keys. Until then
	// the first JWT with the new key may be verified with the result of the fetch before, and an
	// old JWT with the old keys.
	var c *Caller
	var err error
	eventually(t, "the new key is fetched", func() bool {
		c, err = w.identify(t, f.jwt(t, w.claims(f, map[string]any{"sub": "b"})))
		return err == nil || f.asked.Load() > 2
	})
	if err != nil || c.Identity != "user:b" {
		t.Errorf("with the new key: %v", err)
	}
	eventually(t, "the old key is no longer good", func() bool {
		w.now = w.now.Add(jwtCacheTTL) // a verified JWT is cached this long
		c, err = w.identify(t, old)
		return err != nil
	})
	refused(t, c, err, "failed to verify", old)
	w.now = w.now.Add(2 * time.Hour)
	c, err = w.identify(t, f.jwt(t, w.claims(f, map[string]any{"exp": w.now.Add(-time.Second).Unix()})))
	refused(t, c, err, "expired")
}

// eventually fails the test unless is holds within a minute.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// TestIssuerIsNotHammered sends JWTs of strangers that name unknown keys.
func TestIssuerIsNotHammered(t *testing.T) {
	w, f := oidcWorld(t, OIDC{})
	stranger := newFakeIssuer(t)
	stranger.rotate(t, "unknown")
	for range 50 {
		if _, err := w.identify(t, stranger.jwt(t, w.claims(f, nil))); err == nil {
			t.Fatal("taken")
		}
	}
	if n := f.asked.Load(); n > fetchBurst {
		t.Errorf("asked %d times; want %d at most", n, fetchBurst)
	}
	good := f.jwt(t, w.claims(f, nil))
	if _, err := w.identify(t, good); err != nil {
		t.Errorf("who has a good one is served meanwhile: %v", err)
	}
}

// TestIssuerDown checks that calls without a JWT succeed, and that calls with one fail without
// queueing.
func TestIssuerDown(t *testing.T) {
	w, f := oidcWorld(t, OIDC{})
	f.down.Store(true)
	text, _ := w.token(t, "ci", time.Time{})
	good := f.jwt(t, w.claims(f, nil))
	for range 10 {
		c, err := w.identify(t, good)
		refused(t, c, err, "the JWT cannot be verified now: the issuer "+f.URL+" does not give its keys", good)
	}
	if n := f.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if _, err := w.identify(t, text); err != nil {
		t.Errorf("a token of the cluster: %v", err)
	}
	f.down.Store(false)
	w.now = w.now.Add(fetchEvery)
	if _, err := w.identify(t, good); err != nil {
		t.Errorf("it is back: %v", err)
	}
	w.now = w.now.Add(issuerCacheTTL - jwtCacheTTL) // the location of the keys is cached, the JWT is not
	f.down.Store(true)
	w.now = w.now.Add(jwtCacheTTL)
	if _, err := w.identify(t, f.jwt(t, w.claims(f, map[string]any{"sub": "c"}))); err != nil {
		t.Errorf("it does not answer any more, and its keys are known: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := w.Identify(ctx, nil, nil); err != nil || c != anonymous {
		t.Errorf("%v", err)
	}
}

// TestKeysStay checks that the last keys are used for a day while new ones cannot be fetched, and
// that a key that the issuer no longer has is refused once they can be.
func TestKeysStay(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"an error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"no JSON":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"no answer": func(w http.ResponseWriter, _ *http.Request) {
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, f := oidcWorld(t, OIDC{})
			start := w.now
			jwt := func(sub string) string {
				return f.jwt(t, w.claims(f, map[string]any{"sub": sub, "exp": w.now.Add(100 * time.Hour).Unix()}))
			}
			if _, err := w.identify(t, jwt("first")); err != nil {
				t.Fatal(err)
			}
			f.keys.Store(&answer)
			for w.now = start.Add(issuerCacheTTL); w.now.Before(start.Add(keysTrusted)); w.now = w.now.Add(issuerCacheTTL) {
				if _, err := w.identify(t, jwt("later")); err != nil {
					t.Fatalf("after %v: %v", w.now.Sub(start), err)
				}
			}
			c, err := w.identify(t, jwt("a day later"))
			refused(t, c, err, "does not give its keys")

			f.keys.Store(nil)
			w.now = w.now.Add(fetchEvery)
			if _, err := w.identify(t, jwt("it answers again")); err != nil {
				t.Error(err)
			}
			old := jwt("with the key that will be removed")
			f.rotate(t, "k2")
			w.now = w.now.Add(issuerCacheTTL)
			c, err = w.identify(t, old)
			refused(t, c, err, "failed to verify", old)
		})
	}
}

// TestIssuerIsSlow checks that only one call waits while the issuer is asked again for the location
// of its keys.
func TestIssuerIsSlow(t *testing.T) {
	f := newFakeIssuer(t)
	var log strings.Builder
	w := newWorld(t, Config{OIDC: &OIDC{Issuer: f.URL, Audience: "quorate"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	good := f.jwt(t, w.claims(f, map[string]any{"exp": w.now.Add(10 * time.Hour).Unix()}))
	if _, err := w.identify(t, good); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(issuerCacheTTL)
	asked, slow := f.asked.Load(), make(chan error)
	f.mu.Lock() // the issuer does not answer
	go func() {
		_, err := w.Identify(context.WithoutCancel(t.Context()), nil, []string{"Bearer " + good})
		slow <- err
	}()
	eventually(t, "the issuer is asked", func() bool { return f.asked.Load() > asked })
	if _, err := w.identify(t, good); err != nil {
		t.Errorf("another call meanwhile: %v", err)
	}
	if c := w.Before([]string{"Bearer " + good}); c == nil || c.Identity != "user:u-17" {
		t.Errorf("whom it named before: %+v", c)
	}
	f.mu.Unlock()
	if err := <-slow; err != nil || log.Len() > 0 { // it did not wait until the other had given up
		t.Errorf("the call that asked: %v; log: %s", err, &log)
	}
	w.now = w.now.Add(10 * time.Hour)
	if c := w.Before([]string{"Bearer " + good}); c != nil {
		t.Errorf("whom it named before it expired: %+v", c)
	}
}

func TestOIDCSettings(t *testing.T) {
	for want, o := range map[string]OIDC{
		`auth.oidc.issuer: "login.example.org"; must be a URL`:                      {Issuer: "login.example.org", Audience: "a"},
		`auth.oidc.issuer: "http://login.example.org"; must be https`:               {Issuer: "http://login.example.org", Audience: "a"},
		"auth.oidc.audience: is empty; must be the audience that tokens for this c": {Issuer: "https://login.example.org"},
		"": {Issuer: "https://login.example.org", Audience: "a"},
	} {
		_, err := New(Config{OIDC: &o})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestEmailIsVerified checks that an email identifies the caller only if email_verified is the JSON
// value true.
func TestEmailIsVerified(t *testing.T) {
	w, f := oidcWorld(t, OIDC{IdentityClaim: "email"})
	for _, verified := range []any{nil, false, "false", 0, 1, "true", "", []any{true}, map[string]any{}} {
		c, err := w.identify(t, f.jwt(t, w.claims(f, map[string]any{"email": "boss@example.org", "email_verified": verified})))
		if err == nil || !strings.Contains(err.Error(), "the email of the JWT is not verified") {
			t.Errorf("email_verified %v: %+v, %v", verified, c, err)
		}
	}
	plain, g := oidcWorld(t, OIDC{})
	for _, verified := range []any{nil, 0, true} {
		c, err := plain.identify(t, g.jwt(t, plain.claims(g, map[string]any{"email": "boss@example.org", "email_verified": verified})))
		if err != nil || c.Identity != "user:u-17" {
			t.Errorf("email_verified %v, no identity_claim: %+v, %v", verified, c, err)
		}
	}
}

// TestKeysComeOverHTTPS checks that keys are fetched over HTTPS only, even if the issuer or a redirect names an HTTP URL.
func TestKeysComeOverHTTPS(t *testing.T) {
	for _, keys := range []string{"http://login.example.org/keys", "http://127.evil.example/keys"} {
		mux := http.NewServeMux()
		srv := httptest.NewServer(mux)
		t.Cleanup(srv.Close)
		mux.HandleFunc("/.well-known/openid-configuration", func(rw http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(rw).Encode(map[string]any{"issuer": srv.URL, "jwks_uri": keys, "id_token_signing_alg_values_supported": []string{"ES256"}})
		})
		f := newFakeIssuer(t)
		asked := false
		through := roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.String() == keys {
				asked = true
				r.URL.Host, r.URL.Path = strings.TrimPrefix(f.URL, "http://"), "/keys"
			}
			return http.DefaultTransport.RoundTrip(r)
		})
		w := newWorld(t, Config{OIDC: &OIDC{Issuer: srv.URL, Audience: "quorate", Client: &http.Client{Transport: through}}})
		c, err := w.identify(t, f.jwt(t, w.claims(f, map[string]any{"iss": srv.URL})))
		if err == nil || asked || !strings.Contains(err.Error(), "must be https") {
			t.Errorf("keys at %s: %+v, %v", keys, c, err)
		}
	}
	_, err := New(Config{OIDC: &OIDC{Issuer: "http://127.evil.example", Audience: "a"}})
	if err == nil {
		t.Error("a name that begins as an address of this machine counts as one")
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestCallerThatLeaves checks that a caller that leaves while the issuer is asked for the first time does not
// make the calls of others fail.
func TestCallerThatLeaves(t *testing.T) {
	w, f := oidcWorld(t, OIDC{})
	header := []string{"Bearer " + f.jwt(t, w.claims(f, nil))}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = w.Guard.Identify(gone, nil, []string{"Bearer a.b.c"}) // nobody reads the error
	if c, err := w.Guard.Identify(t.Context(), nil, header); err != nil || c.Identity != "user:u-17" {
		t.Errorf("the caller after it: %v, %v", c, err)
	}
}
