package envoy

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/rbac"
)

func TestJSON(t *testing.T) {
	n := newNode(t, nativeLimits()...)
	may := func(_ context.Context, _ rbac.Permission, namespace string) error {
		switch namespace {
		case "closed":
			return status.Error(codes.PermissionDenied, "not you")
		case "unknown-caller":
			return status.Error(codes.Unauthenticated, "who are you")
		}
		return nil
	}
	h := New(n, Options{Now: n.wall, Headers: HeadersLegacy, May: may}).Handler()
	for _, tc := range []struct {
		method, body string
		code         int
		want         string // part of the answer
	}{
		{"POST", `{"domain":"web","descriptors":[{"entries":[{"key":"ip","value":"10.0.0.1"}]}]}`, 200, `{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"name":"ip--10..0..0..1","requestsPerUnit":1,"unit":"MINUTE"},"durationUntilReset":"60s"}],"responseHeadersToAdd":[{"key":"RateLimit-Limit","value":"1"},{"key":"RateLimit-Remaining","value":"0"},{"key":"RateLimit-Reset","value":"60"}]}`},
		{"POST", `{"domain":"web","descriptors":[{"entries":[{"key":"ip","value":"10.0.0.1"}]}]}`, 429, `{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT",`},
		{"POST", `{"domain":"web","descriptors":[{"entries":[{"key":"ip","value":"2"}],"hits_addend":"0"}],"hitsAddend":2}`, 200, `"limitRemaining":3`},
		{"POST", `{"domain":"","descriptors":[]}`, 400, "domain: is empty"},
		{"POST", `{"domain":"web","nope":1}`, 400, "the body must be a RateLimitRequest in JSON"},
		{"POST", `{`, 400, "the body must be a RateLimitRequest in JSON"},
		{"POST", strings.Repeat(" ", MaxBody+1), 413, "the body is larger than 4194304 bytes"},
		{"POST", `{"domain":"web","descriptors":[` + strings.Repeat("{},", maxObjects) + `{}]}`, 400, "the body has more than 16384 braces"},
		{"POST", `{"domain":"closed","descriptors":[{"entries":[{"key":"a"}]}]}`, 403, "not you"},
		{"POST", `{"domain":"unknown caller","descriptors":[{"entries":[{"key":"a"}]}]}`, 401, "who are you"},
		{"POST", `{"domain":"web","descriptors":[{"entries":[{"key":"flight"}]}]}`, 500, "is a concurrency limit"},
		{"GET", "", 405, "use POST"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), tc.method, JSONPath, strings.NewReader(tc.body)))
		if got := compact(w.Body.String()); w.Code != tc.code || !strings.Contains(got, tc.want) {
			t.Errorf("%.90s: %d %s\nwant %d %s", tc.body, w.Code, got, tc.code, tc.want)
		}
		if w.Code == http.StatusTooManyRequests && (w.Header().Get("Retry-After") != "60" || w.Header().Get("RateLimit-Reset") != "60") {
			t.Errorf("a refusal has the fields %v", w.Header())
		}
	}
}

// TestJSONOnTerminals checks that terminal control characters in a rule's name are escaped.
func TestJSONOnTerminals(t *testing.T) {
	n := newNode(t)
	rules := rulesOf(t, `
domain: d
descriptors:
  - {key: a, rate_limit: {unit: day, requests_per_unit: 5, name: "\x9b31m\u202e"}}
`)
	h := New(n, Options{Now: n.wall, Rules: func() *Rules { return rules }}).Handler()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, JSONPath, strings.NewReader(`{"domain":"d","descriptors":[{"entries":[{"key":"a","value":"1"}]}]}`)))
	if got := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(got, `"\u009b31m\u202e"`) {
		t.Errorf("%d %q", w.Code, got)
	}
}

// compact removes spaces, which protobuf's JSON form adds at random.
func compact(s string) string {
	var v json.RawMessage
	if json.Unmarshal([]byte(s), &v) != nil {
		return s
	}
	var b strings.Builder
	quoted := false
	for i, c := range s {
		if c == '"' && (i == 0 || s[i-1] != '\\') {
			quoted = !quoted
		}
		if quoted || c != ' ' {
			b.WriteRune(c)
		}
	}
	return b.String()
}
