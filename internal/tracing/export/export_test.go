package export

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

func start(t *testing.T, env map[string]string) (on bool, stop func(), err error) {
	t.Helper()
	for k, v := range env {
		t.Setenv(k, v)
	}
	tr, stop, err := Start(t.Context(), func(k string) string { return env[k] }, "n1", "1.2.3", slog.New(slog.DiscardHandler))
	_, span := tr.Start(t.Context(), "a")
	span.End(nil)
	return tr != nil, stop, err
}

// TestWhenConfigured: traces are exported if OpenTelemetry's own variables say where to.
func TestWhenConfigured(t *testing.T) {
	const there = "http://127.0.0.1:1"
	for name, c := range map[string]struct {
		env   map[string]string
		on    bool
		fault string
	}{
		"nothing":         {},
		"endpoint":        {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": there}, on: true},
		"traces endpoint": {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": there + "/v1/traces"}, on: true},
		"exporter":        {env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, on: true},
		"none":            {env: map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": there}},
		"disabled":        {env: map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": there}},
		"unknown":         {env: map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, fault: "must be otlp or none"},
		"protocol":        {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": there, "OTEL_EXPORTER_OTLP_PROTOCOL": "json"}, fault: "must be http/protobuf or grpc"},
	} {
		t.Run(name, func(t *testing.T) {
			on, stop, err := start(t, c.env)
			defer stop()
			if on != c.on || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%v, %v; want %v, %q", on, err, c.on, c.fault)
			}
		})
	}
}

// TestExported: a collector gets the span, of a service with its name and its node.
func TestExported(t *testing.T) {
	var mu sync.Mutex
	var got collector.ExportTraceServiceRequest
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if err := proto.Unmarshal(body, &got); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
	}))
	defer srv.Close()
	_, stop, err := start(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": srv.URL, "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test"})
	if err != nil {
		t.Fatal(err)
	}
	stop()
	mu.Lock()
	defer mu.Unlock()
	text := got.String()
	for _, want := range []string{`"a"`, `"service.name"`, `"quorate"`, `"service.instance.id"`, `"n1"`, `"1.2.3"`, `"deployment.environment.name"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}
