package rest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	"github.com/quorate/quorate/internal/quota"
)

// TestOtherProtocols checks that mounted handlers get their paths and no others, and that their
// decisions and calls are in the metrics.
func TestOtherProtocols(t *testing.T) {
	n := apitest.New(t)
	says := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			w.Write([]byte(text))
		})
	}
	s := api.New(n, api.Options{})
	limit, _ := n.Active.Find(quota.LimitName{Namespace: "web", Limit: "login"})
	s.Quota.Seen(&quota.Decision{Allowed: true, Why: quota.WhyHeld, Limit: limit}, 3)
	s.Quota.Seen(&quota.Decision{Why: quota.WhyNoLimit}, 1)
	h := New(s, Options{Mount: map[string]http.Handler{"/api": says("short"), "/api/long": says("long"), "/v1": says("never a route of ours")}}).Handler
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	for path, want := range map[string]string{
		"/api": "short", "/api/": "short", "/api/x/y": "short", "/api/long": "long", "/api/long/x": "long", "/api/longer": "short",
		"/v1/nothing": "never a route of ours",
	} {
		if code, body := get(path); code != http.StatusTeapot || body != want {
			t.Errorf("GET %s: %d %q; want %q", path, code, body, want)
		}
	}
	if code, body := get("/apis"); code != http.StatusNotFound || !strings.Contains(body, "did you mean /api?") {
		t.Errorf("GET /apis: %d %s; want 404 with what is near", code, body)
	}
	if code, _ := get("/v1/status"); code != http.StatusOK {
		t.Errorf("GET /v1/status: %d; a mount must not hide a route", code)
	}
	_, text := get("/metrics")
	for _, want := range []string{
		`quorate_decisions_total{limit="login",namespace="web",result="allowed",why="held"} 3`,
		`quorate_no_limit_total 1`,
		`quorate_request_duration_seconds_count{code="418",method="/api",protocol="http"} 4`,
		`quorate_request_duration_seconds_count{code="404",method="other",protocol="http"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// TestStrictTransport checks that responses over TLS have the header Strict-Transport-Security, and
// others do not.
func TestStrictTransport(t *testing.T) {
	h := New(api.New(apitest.New(t), api.Options{}), Options{Mount: map[string]http.Handler{Console: http.NotFoundHandler()}}).Handler
	for target, want := range map[string]string{"https://n1/console/": "max-age=31536000", "https://n1/": "max-age=31536000", "http://n1/console/": ""} {
		w := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodGet, target, nil)
		req.Header.Set("Accept", "text/html")
		h.ServeHTTP(w, req)
		if got := w.Header().Get("Strict-Transport-Security"); got != want {
			t.Errorf("%s: %q; want %q", target, got, want)
		}
	}
}
