package envoy

import (
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/quorate/quorate/internal/quota"
)

func TestHeaders(t *testing.T) {
	odd := perMinute("web", "x", 5)
	odd.SetFirst(quota.Window(quota.FixedWindow, 5, time.Second+time.Millisecond))
	n := newNode(t, append(nativeLimits(), odd)...)
	for _, tc := range []struct {
		which       Headers
		descriptors string
		want        string
	}{
		{HeadersIETF, "ip=1", `RateLimit-Policy: "ip";q=3;w=60 | RateLimit: "ip";r=2;t=60`},
		{HeadersIETF, "ip=1 ; path=/, ip=1", `RateLimit-Policy: "ip";q=3;w=60, "path.ip";q=2;w=60 | RateLimit: "ip";r=1;t=60, "path.ip";r=1;t=60`},
		{HeadersIETF, "ip=7 ; ip=8", `RateLimit-Policy: "ip";q=3;w=60 | RateLimit: "ip";r=2;t=60`}, // a limit once
		{HeadersIETF, "bucket=1", `RateLimit-Policy: "bucket";q=20;w=2 | RateLimit: "bucket";r=19;t=1`},
		{HeadersIETF, "nobody=1 ; free=1 ; off=1", ""}, // limits that do not count have no fields
		{HeadersIETF, "ip=10.0.0.1 #5 ; bucket=1", `RateLimit-Policy: "ip--10..0..0..1";q=1;w=60, "bucket";q=20;w=2 | RateLimit: "ip--10..0..0..1";r=0;t=60, "bucket";r=18;t=1 | Retry-After: 60`},
		{HeadersLegacy, "ip=1 ; bucket=2", "RateLimit-Limit: 3 | RateLimit-Remaining: 0 | RateLimit-Reset: 60"}, // of the tightest
		{HeadersLegacy, "ip=1 ; bucket=2", "RateLimit-Limit: 3 | RateLimit-Remaining: 0 | RateLimit-Reset: 60 | Retry-After: 60"},
		{HeadersBoth, "x=1", `RateLimit-Policy: "x";q=5;w=2 | RateLimit: "x";r=4;t=1 | RateLimit-Limit: 5 | RateLimit-Remaining: 4 | RateLimit-Reset: 1`},
		{HeadersNone, "ip=1", ""},
		{HeadersIETF, "shadow=1 ; shadow=1", `RateLimit-Policy: "shadow";q=1;w=60 | RateLimit: "shadow";r=0;t=60`}, // no Retry-After
	} {
		req := &request{Domain: "web"}
		for d := range strings.SplitSeq(tc.descriptors, " ; ") {
			req.Descriptors = append(req.Descriptors, desc(d))
		}
		expect(t, tc.descriptors, fieldsOf(t, New(n, Options{Now: n.wall, Headers: tc.which}), req), tc.want)
	}
}

func fieldsOf(t *testing.T, s *Server, req *request) string {
	t.Helper()
	res, err := s.ShouldRateLimit(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, h := range res.ResponseHeadersToAdd {
		out = append(out, h.Key+": "+h.Value)
	}
	return strings.Join(out, " | ")
}

// TestLegacyHeaders checks that the fields describe the last limit that refused, as in
// envoyproxy/ratelimit, or if none did, the first with the least remaining.
func TestLegacyHeaders(t *testing.T) {
	n := newNode(t)
	rules := rulesOf(t, `
domain: d
descriptors:
  - {key: five, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: none, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: one, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: quota, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: six, rate_limit: {unit: day, requests_per_unit: 6}}
`)
	s := New(n, Options{Now: n.wall, Headers: HeadersLegacy, Rules: func() *Rules { return rules }})
	for _, tc := range []struct{ descriptors, want string }{
		{"six=1 ; five=1 ; one=1", "RateLimit-Limit: 1 | RateLimit-Remaining: 0 | RateLimit-Reset: 3600"},
		{"one=1 ; none=1 ; five=1", "RateLimit-Limit: 0 | RateLimit-Remaining: 0 | RateLimit-Reset: 39600 | Retry-After: 39600"},
		{"none=1 ; one=1 ; quota=1", "RateLimit-Limit: 1 | RateLimit-Remaining: 0 | RateLimit-Reset: 3600 | Retry-After: 39600"},
	} {
		req := &request{Domain: "d"}
		for d := range strings.SplitSeq(tc.descriptors, " ; ") {
			req.Descriptors = append(req.Descriptors, desc(d))
		}
		expect(t, tc.descriptors, fieldsOf(t, s, req), tc.want)
	}
}

// TestHeaderNames checks that a rule that is used unchanged has its name, or its keys and never
// values, and that no name breaks out of its field.
func TestHeaderNames(t *testing.T) {
	n := newNode(t)
	rules := rulesOf(t, `
domain: d
descriptors:
  - {key: a, value: secret, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: b, rate_limit: {unit: day, requests_per_unit: 6, name: 'say "hi"\, ü'}}
`)
	s := New(n, Options{Now: n.wall, Rules: func() *Rules { return rules }})
	got := fieldsOf(t, s, &request{Domain: "d", Descriptors: []*commonv3.RateLimitDescriptor{desc("a=secret"), desc("b=x")}})
	expect(t, "names", got, `RateLimit-Policy: "a";q=5;w=86400, "say \"hi\"\\, ?";q=6;w=86400 | RateLimit: "a";r=4;t=39600, "say \"hi\"\\, ?";r=5;t=39600`)
}

// TestManyPolicies checks that the fields describe the tightest limits and stay short.
func TestManyPolicies(t *testing.T) {
	var limits []quota.Limit
	req := &request{Domain: "web"}
	for i := range 40 {
		name := "l" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		limits = append(limits, perMinute("web", name, int64(100-i)))
		req.Descriptors = append(req.Descriptors, desc(name+"=1"))
	}
	n := newNode(t, limits...)
	got := fieldsOf(t, New(n, Options{Now: n.wall}), req)
	if c := strings.Count(got, ";q="); c != maxPolicies || !strings.Contains(got, `RateLimit: "lbn";r=60;t=60, "lbm";r=61;t=60`) {
		t.Errorf("%d limits in %s", c, got)
	}
}
