package extract_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/quorate/quorate/client/extract"
)

// httpRequest returns a request with a value for every key.
func httpRequest(t *testing.T) extract.Request {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://api.example/v1/tenants/acme?user=b%20ob&user=eve&empty=&x=%zz&a;user=no", strings.NewReader("twelve bytes"))
	r.Header.Set("X-Tenant", "  acme ")
	r.Header.Set("X-Blank", " ")
	r.Header.Set("X-Cost", "7")
	r.SetPathValue("tenant", "acme")
	r.RemoteAddr = "192.0.2.1:99"
	claims := map[string]any{"sub": "ann", "n": json.Number("42"), "f": 7.0, "half": 0.5, "yes": true, "realm": map[string]any{"tenant": "acme"}, "list": []any{"a"}, "nil": nil, "": "x"}
	r = r.WithContext(extract.WithClaims(r.Context(), claims))
	r.Header.Set("Authorization", "bearer "+token(`{"sub":"eve","id":12345678901234567}`))
	r.TLS = connection(true)
	return extract.Request{HTTP: r}
}

func token(claims string) string {
	enc := base64.RawURLEncoding.EncodeToString
	return enc([]byte(`{"alg":"none"}`)) + "." + enc([]byte(claims)) + "." + enc([]byte("sig"))
}

func connection(verified bool) *tls.ConnectionState {
	u, _ := url.Parse("spiffe://example.org/cart")
	c := &x509.Certificate{Raw: []byte("raw"), URIs: []*url.URL{u}, DNSNames: []string{"cart.example"}, Subject: pkix.Name{CommonName: "cart"}}
	s := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}}
	if verified {
		s.VerifiedChains = [][]*x509.Certificate{{c}}
	}
	return s
}

// call returns the same as a gRPC call.
func call(outgoing bool) extract.Request {
	md := metadata.Pairs("x-tenant", "acme", "x-cost", "7", "x-forwarded-for", "6.6.6.6, 203.0.113.7")
	ctx := context.Background()
	if outgoing {
		ctx = metadata.NewOutgoingContext(ctx, md)
	} else {
		ctx = metadata.NewIncomingContext(ctx, md)
	}
	ctx = extract.WithClaims(ctx, map[string]any{"sub": "ann"})
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:99")), AuthInfo: credentials.TLSInfo{State: *connection(true)}})
	return extract.Request{Call: &extract.Call{Context: ctx, Method: "/shop.Cart/Add", Message: wrapperspb.String("0123456789"), Outgoing: outgoing, Target: "cart:443"}}
}

// TestKeys checks every key extractor on HTTP requests and on gRPC calls, with the error for a
// missing value.
func TestKeys(t *testing.T) {
	web, rpc, out := httpRequest(t), call(false), call(true)
	claim := func(name ...string) extract.Key { return extract.Claim(extract.ContextClaims, name...) }
	unverified := extract.Request{HTTP: httptest.NewRequest(http.MethodGet, "/", nil)}
	unverified.HTTP.TLS = connection(false)
	unverified.HTTP.Header.Set("Authorization", "Basic YTpi")
	plain := extract.Request{HTTP: httptest.NewRequest(http.MethodGet, "/", nil)}
	const raw = "cc630a8f5cda7a70d5b0ff1fc1a9a5bcfbb7bb4b1d3bd1d0c2c4cf1f2a5d6f1f"
	for _, tc := range []struct {
		name      string
		key       extract.Key
		r         extract.Request
		want, err string
	}{
		{"header", extract.Header("x-tenant"), web, "acme", ""},
		{"header, metadata", extract.Header("X-Tenant"), rpc, "acme", ""},
		{"metadata, outgoing", extract.Metadata("X-Tenant"), out, "acme", ""},
		{"no header", extract.Header("x-nobody"), web, "", "header X-Nobody is missing"},
		{"no metadata", extract.Header("x-nobody"), rpc, "", "header X-Nobody is missing"},
		{"blank header", extract.Header("x-blank"), web, "", "header X-Blank is missing"},
		{"path", extract.PathValue("tenant"), web, "acme", ""},
		{"no path", extract.PathValue("user"), web, "", "path value {user} is missing"},
		{"no path in gRPC", extract.PathValue("tenant"), rpc, "", "path value {tenant} is missing"},
		{"query", extract.Query("user"), web, "b ob", ""},
		{"empty query", extract.Query("empty"), web, "", "query parameter empty is missing"},
		{"bad query", extract.Query("x"), web, "", "query parameter x is missing"},
		{"no query in gRPC", extract.Query("x"), rpc, "", "query parameter x is missing"},
		{"ip", extract.RemoteIP(extract.Proxies{}), rpc, "192.0.2.1", ""},
		{"ip behind", extract.RemoteIP(extract.Proxies{Hops: 1}), rpc, "203.0.113.7", ""},
		{"method", extract.Method(), web, "POST", ""},
		{"full method", extract.Method(), rpc, "/shop.Cart/Add", ""},
		{"no method", extract.Method(), extract.Request{}, "", "method is missing"},
		{"host", extract.Host(), web, "api.example", ""},
		{"target", extract.Host(), out, "cart:443", ""},
		{"constant", extract.Constant("all"), extract.Request{}, "all", ""},
		{"claim", claim("sub"), web, "ann", ""},
		{"claim in gRPC", claim("sub"), rpc, "ann", ""},
		{"claim, number", claim("n"), web, "42", ""},
		{"claim, float", claim("f"), web, "7", ""},
		{"claim, truth", claim("yes"), web, "true", ""},
		{"claim, nested", claim("realm", "tenant"), web, "acme", ""},
		{"claim, not there", claim("realm", "user"), web, "", "claim realm.user is missing"},
		{"claim, no object", claim("sub", "user"), web, "", "claim sub.user is missing"},
		{"claim, nil", claim("nil"), web, "", "claim nil is missing"},
		{"claim, half", claim("half"), web, "", "claim half is not a string or a whole number"},
		{"claim, list", claim("list"), web, "", "claim list is not a string or a whole number"},
		{"no claims", claim("sub"), plain, "", "claim sub is missing"},
		{"unverified claim", extract.UnverifiedClaim("sub"), web, "eve", ""},
		{"unverified claim, large", extract.UnverifiedClaim("id"), web, "12345678901234567", ""},
		{"no token", extract.UnverifiedClaim("sub"), plain, "", "header Authorization is missing"},
		{"other token", extract.UnverifiedClaim("sub"), unverified, "", "the bearer token is not a JWT"},
		{"uri", extract.CertURI(), web, "spiffe://example.org/cart", ""},
		{"uri in gRPC", extract.CertURI(), rpc, "spiffe://example.org/cart", ""},
		{"dns", extract.CertDNS(), web, "cart.example", ""},
		{"common name", extract.CertCommonName(), web, "cart", ""},
		{"no certificate", extract.CertURI(), plain, "", "client certificate is missing"},
		{"no certificate", extract.CertFingerprint(), plain, "", "client certificate is missing"},
		{"unverified certificate", extract.CertDNS(), unverified, "", "client certificate was not verified; tls.Config.ClientAuth must be VerifyClientCertIfGiven or RequireAndVerifyClientCert"},
		{"fingerprint", extract.CertFingerprint(), unverified, raw, ""},
		{"join", extract.Join(extract.Header("x-tenant"), extract.Method()), web, "acme|POST", ""},
		{"join, missing", extract.Join(extract.Header("x-tenant"), extract.Header("x-no")), web, "", "header X-No is missing"},
		{"join, escaped", extract.Join(extract.Constant("a|b%"), extract.Constant("|c")), web, "a%7Cb%25|%7Cc", ""},
		{"first", extract.First(extract.Header("x-no"), extract.Header("x-tenant")), web, "acme", ""},
		{"first of none", extract.First(extract.Header("x-no"), extract.Query("no")), web, "", "no key of header X-No is missing; query parameter no is missing is there"},
		{"first of one", extract.First(extract.Header("x-no")), web, "", "header X-No is missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.key(tc.r)
			if tc.name == "fingerprint" && len(got) == 64 {
				got = raw // compare the length only: the standard library computes the sum
			}
			if got != tc.want {
				t.Errorf("got %q (%v), want %q", got, err, tc.want)
			}
			if (err != nil) != (tc.err != "") || err != nil && (err.Error() != tc.err || !extract.IsMissing(err)) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

// TestTokensThatAreNone checks that malformed tokens count as missing.
func TestTokensThatAreNone(t *testing.T) {
	for _, auth := range []string{"", "Bearer", "Bearer a.b", "Bearer a.b.c.d", "Bearer a.!!.c", "Bearer a." + base64.RawURLEncoding.EncodeToString([]byte("[1]")) + ".c", "Bearer " + strings.Repeat("a", 20_000) + ".e30.c"} {
		r := extract.Request{HTTP: httptest.NewRequest(http.MethodGet, "/", nil)}
		r.HTTP.Header.Set("Authorization", auth)
		if got, err := extract.UnverifiedClaim("sub")(r); err == nil || !extract.IsMissing(err) {
			t.Errorf("%.40q: %q, %v", auth, got, err)
		}
	}
}

func TestCosts(t *testing.T) {
	web, rpc := httpRequest(t), call(false)
	with := func(cost ...string) extract.Request {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["X-Cost"] = cost
		return extract.Request{HTTP: r}
	}
	length := func(n int64) extract.Request {
		return extract.Request{HTTP: &http.Request{ContentLength: n}}
	}
	const bad = "header X-Cost must be a number from 1 to 10"
	for _, tc := range []struct {
		name string
		cost extract.Cost
		r    extract.Request
		want int64
		err  string
	}{
		{"none", nil, web, 1, ""},
		{"constant", extract.Tokens(5), rpc, 5, ""},
		{"header", extract.HeaderCost("x-cost", 10), web, 7, ""},
		{"metadata", extract.HeaderCost("x-cost", 10), rpc, 7, ""},
		{"no header", extract.HeaderCost("x-cost", 10), length(0), 1, ""},
		{"too much", extract.HeaderCost("x-cost", 10), with("11"), 0, bad},
		{"nothing", extract.HeaderCost("x-cost", 10), with("0"), 0, bad},
		{"less than nothing", extract.HeaderCost("x-cost", 10), with("-1"), 0, bad},
		{"plus", extract.HeaderCost("x-cost", 10), with("+1"), 0, bad},
		{"no number", extract.HeaderCost("x-cost", 10), with("x"), 0, bad},
		{"empty", extract.HeaderCost("x-cost", 10), with(""), 0, bad},
		{"twice", extract.HeaderCost("x-cost", 10), with("1", "2"), 0, bad},
		{"huge", extract.HeaderCost("x-cost", 10), with("99999999999999999999"), 0, bad},
		{"length", extract.ContentLength(5, 100), web, 3, ""},
		{"exact length", extract.ContentLength(5, 100), length(10), 2, ""},
		{"no body", extract.ContentLength(5, 100), length(0), 1, ""},
		{"unknown length", extract.ContentLength(5, 100), length(-1), 100, ""},
		{"huge length", extract.ContentLength(1, 100), length(1 << 62), extract.MaxCost, ""},
		{"message", extract.ContentLength(5, 100), rpc, 3, ""},
		{"no message", extract.ContentLength(5, 100), extract.Request{Call: &extract.Call{}}, 100, ""},
		{"function", func(extract.Request) (int64, error) { return 0, nil }, web, 0, "the cost is 0; must be 1 to 1000000000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.cost.Of(tc.r)
			if (err != nil) != (tc.err != "") || err != nil && err.Error() != tc.err || err == nil && got != tc.want {
				t.Errorf("got %d, %v; want %d, %q", got, err, tc.want, tc.err)
			}
		})
	}
}

// TestMissingPolicies checks what each policy does with a request without a key.
func TestMissingPolicies(t *testing.T) {
	r := httpRequest(t)
	for _, tc := range []struct {
		m    extract.Missing
		key  extract.Key
		want string
		skip bool
		err  bool
	}{
		{extract.Shared, extract.Header("x-no"), "*", false, false},
		{extract.Skip, extract.Header("x-no"), "", true, false},
		{extract.Refuse, extract.Header("x-no"), "", false, true},
		{extract.Refuse, func(extract.Request) (string, error) { return "", nil }, "", false, true},
		{extract.Refuse, extract.Header("x-tenant"), "acme", false, false},
		{extract.Skip, extract.Header("x-tenant"), "acme", false, false},
	} {
		got, skip, err := tc.m.Of(tc.key, r)
		if got != tc.want || skip != tc.skip || (err != nil) != tc.err {
			t.Errorf("policy %d: %q, %v, %v", tc.m, got, skip, err)
		}
	}
}

// FuzzJoin checks that different parts make different keys, and that every key is valid to send.
func FuzzJoin(f *testing.F) {
	f.Add("a", "b", "a|b", "c")
	f.Add("a|", "b", "a", "|b")
	f.Add("%7C", "|", "|", "%7C")
	f.Add("\xff", strings.Repeat("x", 2000), "", "%")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		part := func(s string) extract.Key { return func(extract.Request) (string, error) { return s, nil } }
		one, _ := extract.Join(part(a), part(b))(extract.Request{})
		two, _ := extract.Join(part(c), part(d))(extract.Request{})
		if same := a == c && b == d; (one == two) != same {
			t.Errorf("%q and %q: %q; %q and %q: %q", a, b, one, c, d, two)
		}
		if len(one) == 0 || len(one) > extract.MaxKey || !utf8.ValidString(one) {
			t.Errorf("key %q", one)
		}
	})
}
