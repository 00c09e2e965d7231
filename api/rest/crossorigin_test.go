package rest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	"github.com/quorate/quorate/internal/rbac"
)

// TestFromOtherSites checks that a page of another site cannot make a browser change anything,
// whoever the user is, and that programs, pages of the node's own address and checks that a proxy
// forwards are let through.
func TestFromOtherSites(t *testing.T) {
	s := newSecured(t, map[string]rbac.Binding{"all": {Role: "admin", Scope: rbac.Everywhere}})
	open := apitest.New(t)
	reset, allow := `{"namespace":"web","limit":"per_client","key":"k"}`, `{"namespace":"web","limit":"per_client","key":"k"}`
	for _, c := range []struct {
		path, body, site, origin string
		want                     int
	}{
		{"/v1/keys:reset", reset, "", "", http.StatusOK},
		{"/v1/keys:reset", reset, "same-origin", "http://example.com", http.StatusOK},
		{"/v1/keys:reset", reset, "cross-site", "https://evil.example", http.StatusForbidden},
		{"/v1/keys:reset", reset, "same-site", "https://other.example.com", http.StatusForbidden},
		{"/v1/keys:reset", reset, "", "https://evil.example", http.StatusForbidden}, // an old browser
		{"/v1/tokens", `{"name":"x"}`, "cross-site", "https://evil.example", http.StatusForbidden},
		{"/v1/refund", allow, "cross-site", "https://evil.example", http.StatusForbidden},
		{"/v1/report", `{"namespace":"web","limit":"per_client","key":"k","used":1}`, "cross-site", "https://evil.example", http.StatusForbidden},
		{"/v1/reserve", `{"checks":[` + allow + `]}`, "cross-site", "https://evil.example", http.StatusForbidden},
		{"/v1/acquire", allow, "cross-site", "https://evil.example", http.StatusForbidden},
		{"/api/anything", "{}", "cross-site", "https://evil.example", http.StatusForbidden}, // of another protocol
		{"/v1/allow", allow, "", "", http.StatusOK},
		{"/v1/allow", allow, "cross-site", "https://evil.example", http.StatusOK},
		{"/v1/allow:batch", `{"checks":[` + allow + `]}`, "cross-site", "https://evil.example", http.StatusOK},
	} {
		for name, h := range map[string]http.Handler{"secured": s.handler(), "open": New(api.New(open, api.Options{}), Options{Mount: s.web.Mount}).Handler} {
			if name == "open" && c.path == "/v1/tokens" {
				continue // it stores nothing
			}
			want := c.want
			if name == "open" && c.site == "cross-site" { // a page could use up the limits of others
				want = http.StatusForbidden
			}
			req := httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body))
			req.Header.Set("Content-Type", "text/plain") // browsers send it without a CORS preflight
			for key, value := range map[string]string{"Sec-Fetch-Site": c.site, "Origin": c.origin} {
				if value != "" {
					req.Header.Set(key, value)
				}
			}
			if name == "secured" {
				req.Header.Set("Authorization", "Bearer "+s.tokens["all"])
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			if w.Code != want || w.Code == http.StatusForbidden && !strings.Contains(w.Body.String(), `"reason":"CROSS_ORIGIN"`) {
				t.Errorf("%s: %s of %q, %q: %d %s; want %d", name, c.path, c.site, c.origin, w.Code, w.Body, want)
			}
		}
	}
}

// TestForwardFromOtherSites checks that a page of another site cannot spend tokens through the
// check for proxies, and that a proxy can pass on such requests of its clients.
func TestForwardFromOtherSites(t *testing.T) {
	s := newSecured(t, map[string]rbac.Binding{"all": {Role: "admin", Scope: rbac.Everywhere}})
	for _, c := range []struct {
		site, header  string
		open, secured int
	}{
		{"cross-site", "", http.StatusForbidden, http.StatusOK},
		{"same-site", "", http.StatusForbidden, http.StatusOK},
		{"cross-site", "Accept-Language", http.StatusForbidden, http.StatusOK}, // a page may set it
		{"cross-site", "X-Forwarded-For", http.StatusOK, http.StatusOK},
		{"same-site", "X-Original-URI", http.StatusOK, http.StatusOK},
		{"same-origin", "", http.StatusOK, http.StatusOK},
		{"none", "", http.StatusOK, http.StatusOK},
		{"", "", http.StatusOK, http.StatusOK}, // a program
	} {
		for name, h := range map[string]http.Handler{"secured": s.handler(), "open": New(api.New(apitest.New(t), api.Options{Hosts: []string{}}), Options{ForwardAuth: true}).Handler} {
			want := map[string]int{"secured": c.secured, "open": c.open}[name]
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				req := httptest.NewRequest(method, "/v1/forward-auth?namespace=web&limit=per_client&key=k&cost=0", nil)
				req.Host = "evil.example"
				if c.site != "" {
					req.Header.Set("Sec-Fetch-Site", c.site)
				}
				if c.header != "" {
					req.Header.Set(c.header, "x")
				}
				if name == "secured" {
					req.Header.Set("Authorization", "Bearer "+s.tokens["all"])
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, req)
				if w.Code != want {
					t.Errorf("%s: %s from %q with %q: %d %s; want %d", name, method, c.site, c.header, w.Code, w.Body, want)
				}
			}
		}
	}
}

// TestOtherHosts checks that without authentication an unknown name in the header Host is refused.
func TestOtherHosts(t *testing.T) {
	s := newSecured(t, nil)
	s.opts.Hosts = []string{"quorate.example.com"}
	for host, ok := range map[string]bool{
		"127.0.0.1:7411": true, "[::1]:7411": true, "10.1.2.3": true, "localhost:7411": true, "quorate": true, "n1.quorate.svc.cluster.local:7411": true,
		"QUORATE.example.com.:7411": true, "evil.example:7411": false, "127.0.0.1.evil.example": false, "quorate.example.com.evil.example": false, "localhost.evil.example": false,
	} {
		h := New(api.New(apitest.New(t), api.Options{Hosts: s.opts.Hosts}), Options{}).Handler
		do := func(h http.Handler, path string) *httptest.ResponseRecorder {
			req := httptest.NewRequest(http.MethodGet, path, nil)
			req.Host = host
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			return w
		}
		for range 2 {
			if w := do(h, "/v1/status"); (w.Code == http.StatusOK) != ok || !ok && (w.Code != http.StatusMisdirectedRequest || !strings.Contains(w.Body.String(), "listen.hosts")) {
				t.Errorf("%s: %d %s", host, w.Code, w.Body)
			}
		}
		if w := do(NewDebug(api.New(apitest.New(t), api.Options{Hosts: s.opts.Hosts})).Handler, "/debug/pprof/heap?debug=1"); (w.Code == http.StatusOK) != ok {
			t.Errorf("profiles, %s: %d", host, w.Code)
		}
		if w := do(h, "/healthz"); w.Code != http.StatusOK {
			t.Errorf("a probe, %s: %d", host, w.Code)
		}
		if w := do(s.handler(), "/v1/status"); w.Code != http.StatusUnauthorized {
			t.Errorf("with authentication, %s: %d", host, w.Code)
		}
	}
}
