package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/rbac"
)

// TestFromOtherSites: a page of another site cannot have a browser make a change, whoever its reader is; programs,
// pages of the node's own address and checks that a proxy passes on are let through.
func TestFromOtherSites(t *testing.T) {
	s := newSecured(t, map[string]rbac.Binding{"all": {Role: "admin", Scope: rbac.Everywhere}})
	open := newFake(t)
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
		{"/v1/allow", allow, "cross-site", "https://evil.example", http.StatusOK},
	} {
		for name, h := range map[string]http.Handler{"secured": NewHTTP(s, s.opts).Handler, "open": NewHTTP(open, Options{}).Handler} {
			if name == "open" && c.path == "/v1/tokens" {
				continue // it keeps none
			}
			req := httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body))
			req.Header.Set("Content-Type", "text/plain") // which needs no leave of the node
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
			if w.Code != c.want || w.Code == http.StatusForbidden && !strings.Contains(w.Body.String(), `"reason":"CROSS_ORIGIN"`) {
				t.Errorf("%s: %s of %q, %q: %d %s; want %d", name, c.path, c.site, c.origin, w.Code, w.Body, c.want)
			}
		}
	}
}
