package rest

import (
	"net/http"
	"strings"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/envoy"
	"github.com/quorate/quorate/internal/rbac"
)

// TestEnvoyNeedsCheckInTheDomain checks that a caller may ask, over gRPC and as JSON, only about
// domains whose namespaces it may check.
func TestEnvoyNeedsCheckInTheDomain(t *testing.T) {
	s := newSecured(t, map[string]rbac.Binding{
		"everywhere": {Role: "checker", Scope: rbac.Everywhere},
		"web-only":   {Role: "checker", Scope: rbac.Namespace("web")},
		"reader":     {Role: "limit-reader", Scope: rbac.Everywhere},
		"stranger":   {},
	})
	front := envoy.New(s, envoy.Options{})
	s.others = front.Register
	s.web.Mount = map[string]http.Handler{envoy.JSONPath: front.Handler(api.Permitted)}
	conn, h := s.both(t)
	client := ratelimitv3.NewRateLimitServiceClient(conn)
	for _, tc := range []struct {
		who, domain string
		want        codes.Code
		http        int
	}{
		{"everywhere", "web", codes.OK, 200},
		{"everywhere", "other", codes.OK, 200},
		{"web-only", "web", codes.OK, 200},
		{"web-only", "other", codes.PermissionDenied, 403},
		{"web-only", "we b", codes.PermissionDenied, 403}, // the namespace we-b
		{"web-only", "", codes.PermissionDenied, 403},
		{"reader", "web", codes.PermissionDenied, 403},
		{"stranger", "web", codes.PermissionDenied, 403},
		{nobodyAtAll, "web", codes.Unauthenticated, 401},
	} {
		_, err := client.ShouldRateLimit(s.as(t.Context(), tc.who), &ratelimitv3.RateLimitRequest{
			Domain: tc.domain, Descriptors: []*commonv3.RateLimitDescriptor{{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "nobody"}}}},
		})
		if status.Code(err) != tc.want {
			t.Errorf("%q asks about %q: %v, want %v", tc.who, tc.domain, err, tc.want)
		}
		w := s.do(h, tc.who, http.MethodPost, envoy.JSONPath, `{"domain":"`+tc.domain+`","descriptors":[{"entries":[{"key":"nobody"}]}]}`)
		if w.Code != tc.http || w.Code == http.StatusForbidden && !strings.Contains(w.Body.String(), "check") {
			t.Errorf("%q asks about %q: %d %s, want %d", tc.who, tc.domain, w.Code, w.Body, tc.http)
		}
	}
}
