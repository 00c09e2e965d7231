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
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// AdmitInline implements envoy.Node.
func (*secured) AdmitInline(quota.LimitName, string) bool { return true }

// envoy serves the rate limit service, over gRPC and as JSON.
func (s *secured) envoy(t *testing.T) (ratelimitv3.RateLimitServiceClient, http.Handler) {
	t.Helper()
	front := envoy.New(s, envoy.Options{May: api.PermittedTo})
	s.others = front.Register
	s.web.Mount = map[string]http.Handler{envoy.JSONPath: front.Handler()}
	conn, h := s.both(t)
	return ratelimitv3.NewRateLimitServiceClient(conn), h
}

// TestEnvoyNeedsCheckInTheDomain checks that a caller may ask, over gRPC and as JSON, only about
// domains whose namespaces it may check.
func TestEnvoyNeedsCheckInTheDomain(t *testing.T) {
	s := newSecured(t, map[string]rbac.Binding{
		"everywhere": {Role: "checker", Scope: rbac.Everywhere},
		"web-only":   {Role: "checker", Scope: rbac.Namespace("web")},
		"reader":     {Role: "limit-reader", Scope: rbac.Everywhere},
		"stranger":   {},
	})
	client, h := s.envoy(t)
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

// TestEnvoyNeedsReportToGiveBack checks that a caller that may only check cannot give tokens back, over
// gRPC and as JSON, and that one that may also report can.
func TestEnvoyNeedsReportToGiveBack(t *testing.T) {
	s := newSecured(t, map[string]rbac.Binding{
		"checker":  {Role: "checker", Scope: rbac.Namespace("web")},
		"reporter": {Role: "reporter", Scope: rbac.Namespace("web")},
	})
	client, h := s.envoy(t)
	for _, tc := range []struct {
		who  string
		want codes.Code
		http int
	}{{"checker", codes.PermissionDenied, 403}, {"reporter", codes.OK, 200}} {
		_, err := client.ShouldRateLimit(s.as(t.Context(), tc.who), &ratelimitv3.RateLimitRequest{
			Domain: "web", Descriptors: []*commonv3.RateLimitDescriptor{{IsNegativeHits: true, Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "limit", Value: "login"}}}},
		})
		if status.Code(err) != tc.want {
			t.Errorf("%s gives back: %v, want %v", tc.who, err, tc.want)
		}
		w := s.do(h, tc.who, http.MethodPost, envoy.JSONPath, `{"domain":"web","descriptors":[{"isNegativeHits":true,"entries":[{"key":"limit","value":"login"}]}]}`)
		if w.Code != tc.http || w.Code == http.StatusForbidden && !strings.Contains(w.Body.String(), "report") {
			t.Errorf("%s gives back: %d %s, want %d", tc.who, w.Code, w.Body, tc.http)
		}
	}
}
