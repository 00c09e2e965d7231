package extract_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/quorate/quorate/client/extract"
)

func BenchmarkKey(b *testing.B) {
	r := httptest.NewRequest(http.MethodGet, "/v1/items?a=1&user=bob", nil)
	r.Header.Set("X-Tenant", "acme")
	r.Header.Set("X-Forwarded-For", "6.6.6.6, 203.0.113.7, 10.0.0.1")
	r.Header.Set("Forwarded", `for=6.6.6.6, for="203.0.113.7:80";proto=https, for=10.0.0.1`)
	r.RemoteAddr = "10.0.0.2:4711"
	r = r.WithContext(extract.WithClaims(r.Context(), map[string]any{"sub": "ann"}))
	v6 := r.Clone(r.Context())
	v6.RemoteAddr = "[2001:db8:1:2:3:4:5:6]:4711"
	lan := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, bc := range []struct {
		name string
		key  extract.Key
		r    *http.Request
	}{
		{"header", extract.Header("X-Tenant"), r},
		{"query", extract.Query("user"), r},
		{"claim", extract.Claim(extract.ContextClaims, "sub"), r},
		{"connection", extract.RemoteIP(extract.Proxies{}), r},
		{"connection-v6", extract.RemoteIP(extract.Proxies{}), v6},
		{"hops-2", extract.RemoteIP(extract.Proxies{Hops: 2}), r},
		{"trusted", extract.RemoteIP(extract.Proxies{Trusted: lan}), r},
		{"forwarded-2", extract.RemoteIP(extract.Proxies{Hops: 2, Field: "Forwarded"}), r},
		{"joined", extract.Join(extract.Header("X-Tenant"), extract.Method()), r},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bc.key(extract.Request{HTTP: bc.r}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
