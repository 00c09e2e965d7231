package httplimit_test

import (
	"context"
	"log"
	"net/http"
	"net/netip"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/extract"
	"github.com/quorate/quorate/client/httplimit"
)

// One line puts a limit before a service.
func Example() {
	c, err := client.New(context.Background(), []string{"127.0.0.1:7412"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	mux := http.NewServeMux()
	limited := httplimit.New(c, httplimit.Limit("web", "per_client"))(mux)
	log.Print(http.ListenAndServe(":8080", limited))
}

// The limit file says which requests count. The key is the caller's address, as two proxies in
// 10.0.0.0/8 report it.
func ExampleRules() {
	var c client.Limiter // client.New

	proxies := extract.Proxies{Hops: 2, Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	limited := httplimit.New(c,
		httplimit.Rules("web"),
		httplimit.Key(extract.RemoteIP(proxies)),
		httplimit.SkipMethods(http.MethodHead, http.MethodOptions),
		httplimit.SkipPaths("/healthz"),
		httplimit.ShadowHeader("Quorate-Shadow"),
		httplimit.OnError(func(_ context.Context, err error) { log.Print(err) }),
	)
	http.Handle("/", limited(http.FileServer(http.Dir("."))))
}

// Verified tokens identify the tenants; callers without one count by address.
func ExampleKey() {
	var c client.Limiter // client.New

	tenant := extract.Join(extract.Constant("tenant"), extract.Claim(extract.ContextClaims, "tenant"))
	address := extract.Join(extract.Constant("ip"), extract.RemoteIP(extract.Proxies{Hops: 1}))
	limited := httplimit.New(c, httplimit.Limit("api", "per_tenant"), httplimit.Key(extract.First(tenant, address)))

	verify := func(next http.Handler) http.Handler { // your existing verification
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			claims := map[string]any{"tenant": "acme"} // from the verified token
			next.ServeHTTP(w, r.WithContext(extract.WithClaims(r.Context(), claims)))
		})
	}
	http.Handle("/", verify(limited(http.NotFoundHandler())))
}

// A client waits for its turn, and stays away for as long as a server asks it to.
func ExampleNewTransport() {
	var c client.Limiter // client.New

	hc := &http.Client{Transport: httplimit.NewTransport(c, nil,
		httplimit.Limit("out", "per_host"),
		httplimit.Wait(2*time.Second),
		httplimit.Honour(time.Minute),
	)}
	defer hc.CloseIdleConnections()
}
