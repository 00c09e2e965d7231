package rest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	"github.com/quorate/quorate/api/grpcapi"
	"github.com/quorate/quorate/internal/tracing"
)

const traced = "4bf92f3577b34da6a3ce929d0e0e4736"

func TestSampledTrace(t *testing.T) {
	const span = "-00f067aa0ba902b7-"
	for parent, want := range map[string]string{
		"":                                            "",
		"00-" + traced + span + "01":                  traced,
		"00-" + traced + span + "0b":                  traced, // more flags
		"00-" + traced + span + "00":                  "",
		"00-" + traced + span + "0a":                  "",
		"01-" + traced + span + "01-new":              traced, // a later version has more at its end
		"01-" + traced + span + "01new":               "",
		"ff-" + traced + span + "01":                  "",
		"00-" + traced + span + "1":                   "",
		"00-" + strings.Repeat("0", 32) + span + "01": "",
		"00-" + strings.ToUpper(traced) + span + "01": "",
		"00_" + traced + span + "01":                  "",
		"00-" + traced + "_00f067aa0ba902b7-01":       "",
		"00-" + traced + "-00f067aa0ba902b7_01":       "",
		`00-"} 1` + traced[:26] + span + "01":         "",
	} {
		if got := api.SampledTrace(parent); got != want {
			t.Errorf("%q: %q; want %q", parent, got, want)
		}
	}
}

// TestExemplars checks that /metrics shows the trace of a sampled call to readers of OpenMetrics,
// for both protocols.
func TestExemplars(t *testing.T) {
	n := apitest.New(t).With(t, "web/s 1/s 9")
	s := api.New(n, api.Options{})
	h := New(s, Options{}).Handler
	req := httptest.NewRequest(http.MethodPost, "/v1/allow", strings.NewReader(`{"namespace":"web","limit":"s","key":"k"}`))
	req.Header.Set("Traceparent", "00-"+traced+"-00f067aa0ba902b7-01")
	h.ServeHTTP(httptest.NewRecorder(), req)
	other := strings.Repeat("a", 32)
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(tracing.Header, "00-"+other+"-00f067aa0ba902b7-01"))
	api.ObserveTraced(s.Meter.Hot(grpcapi.MethodAllow), 0.001, grpcapi.TracedCall(ctx))
	show := func(accept string) string {
		w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil)
		req.Header.Set("Accept", accept)
		h.ServeHTTP(w, req)
		return w.Body.String()
	}
	text := show("application/openmetrics-text;version=1.0.0")
	for _, id := range []string{traced, other} {
		if !strings.Contains(text, `# {trace_id="`+id+`"}`) {
			t.Errorf("no exemplar of %s in\n%s", id, text)
		}
	}
	if !strings.HasSuffix(text, "# EOF\n") {
		t.Error("OpenMetrics has an end")
	}
	if strings.Contains(show("text/plain"), "trace_id") {
		t.Error("an exemplar in a format that has none")
	}
}

// TestNoTraceCostsNothing checks that a call without a trace allocates nothing for traces.
func TestNoTraceCostsNothing(t *testing.T) {
	s := api.New(apitest.New(t), api.Options{})
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("user-agent", "x", "quorate-user", "ann"))
	if n := testing.AllocsPerRun(100, func() { api.ObserveTraced(s.Meter.Hot(grpcapi.MethodAllow), 0.001, grpcapi.TracedCall(ctx)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
