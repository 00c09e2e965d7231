package httplimit_test

import (
	"context"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/extract"
	"github.com/quorate/quorate/client/httplimit"
)

// instant answers without any work, so the benchmark measures the middleware.
type instant struct{ r client.Result }

func (i *instant) Allow(context.Context, string, string, string, int64) (client.Result, error) {
	return i.r, nil
}

func (i *instant) AllowHTTP(context.Context, client.HTTPCheck) (client.Result, error) {
	return i.r, nil
}
func (i *instant) Close() error { return nil }

// nowhere is a ResponseWriter that discards everything.
type nowhere struct{ h http.Header }

func (w *nowhere) Header() http.Header         { return w.h }
func (w *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (w *nowhere) WriteHeader(int)             {}

// BenchmarkServer measures the middleware's cost per request beside the bare handler. The limiter
// takes no time.
func BenchmarkServer(b *testing.B) {
	bare := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	limit := httplimit.Limit("web", "per_client")
	proxies := extract.Proxies{Hops: 2, Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	for _, bc := range []struct {
		name string
		h    http.Handler
	}{
		{"bare", bare},
		{"limit", httplimit.New(&instant{passed(19)}, limit)(bare)},
		{"rules", httplimit.New(&instant{passed(19)}, httplimit.Rules("web"))(bare)},
		{"limit-no-fields", httplimit.New(&instant{passed(19)}, limit, httplimit.Headers(0))(bare)},
		{"limit-both-fields", httplimit.New(&instant{passed(19)}, limit, httplimit.Headers(httplimit.IETF|httplimit.XRateLimit))(bare)},
		{"limit-header-key", httplimit.New(&instant{passed(19)}, limit, httplimit.Key(extract.Header("X-Tenant")))(bare)},
		{"limit-proxies", httplimit.New(&instant{passed(19)}, limit, httplimit.Key(extract.RemoteIP(proxies)))(bare)},
		{"limit-joined", httplimit.New(&instant{passed(19)}, limit, httplimit.Key(extract.Join(extract.Header("X-Tenant"), extract.Method())))(bare)},
		{"refused", httplimit.New(&instant{refused(time.Second)}, limit)(bare)},
	} {
		b.Run(bc.name, func(b *testing.B) {
			r := get("/v1/items", "X-Tenant", "acme", "X-Forwarded-For", "6.6.6.6, 203.0.113.7, 10.0.0.1")
			r.RemoteAddr = "10.0.0.2:4711"
			w := &nowhere{make(http.Header)}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.h)
				bc.h.ServeHTTP(w, r)
			}
		})
	}
}
