package rest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
)

func post(h http.Handler, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	return w
}

// checkMetrics expects one earlier gRPC check of web/login.
func checkMetrics(t *testing.T, reg *prometheus.Registry, h http.Handler) {
	t.Helper()
	post(h, "/v1/allow", `{"namespace":"web","limit":"login","key":"secret-tenant","cost":4}`)
	post(h, "/v1/allow", `{"namespace":"web","limit":"login","key":"secret-tenant","cost":4}`)
	post(h, "/v1/allow", `{"namespace":"web","limit":"other","key":"secret-tenant"}`)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`quorate_decisions_total{limit="login",namespace="web",result="allowed",why="held"} 2`,
		`quorate_decisions_total{limit="login",namespace="web",result="refused",why="over_limit"} 1`,
		`quorate_no_limit_total 1`,
		`quorate_request_duration_seconds_count{code="OK",method="/quorate.v1.QuotaService/Allow",protocol="grpc"} 1`,
		`quorate_request_duration_seconds_count{code="429",method="POST /v1/allow",protocol="http"} 1`,
		`quorate_build_info{`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "secret-tenant") {
		t.Error("a key is in the metrics")
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v %v", problems, err)
	}
}

// TestShadowAndNearAreCounted checks the counts per limit; the counts of a tier belong to its
// limit.
func TestShadowAndNearAreCounted(t *testing.T) {
	n := apitest.New(t).With(t, "web/s 1/s 1 shadow", "web/waits 1/s 3")
	reg := prometheus.NewRegistry()
	h := New(api.New(n, api.Options{Registry: reg}), Options{}).Handler
	for range 3 {
		post(h, "/v1/allow", `{"namespace":"web","limit":"s","key":"k"}`)
		post(h, "/v1/allow", `{"namespace":"web","limit":"waits","key":"k"}`)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`quorate_shadow_refusals_total{limit="s",namespace="web"} 2`, `quorate_near_limit_total{limit="waits",namespace="web"} 1`,
		`quorate_decisions_total{limit="s",namespace="web",result="allowed",why="over_limit"} 2`,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %s in\n%s", want, w.Body)
		}
	}
}

func BenchmarkHTTPAllow(b *testing.B) {
	n := apitest.New(b)
	h := New(api.New(n, api.Options{}), Options{}).Handler
	body := `{"namespace":"api","limit":"per_tenant","key":"203.0.113.7"}`
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		w.Body.Reset()
		h.ServeHTTP(w, &http.Request{Method: http.MethodPost, URL: allowURL, Body: io.NopCloser(strings.NewReader(body))})
	}
}

var allowURL = httptest.NewRequest(http.MethodPost, "/v1/allow", nil).URL
