package cluster

import (
	"slices"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/tracing"
)

func spanRecorder() (*tracetest.SpanRecorder, *tracing.Tracer) {
	rec := tracetest.NewSpanRecorder()
	return rec, tracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(rec)))
}

// TestForwardedCallsAreTraced checks that calls to other nodes are part of the caller's trace, at both
// ends, and that without a trace there are no spans.
func TestForwardedCallsAreTraced(t *testing.T) {
	rec, tr := spanRecorder()
	c := newThreeNodes(t, 3, func(cfg *Config) { cfg.Tracer = tr })
	n := c.nodes["n1"]
	ask := &quoratev1.TopRatesRequest{Top: 1}
	if _, err := n.TopRates(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	if got := spanNames(rec); slices.Contains(got, "quorate.peer.call") {
		t.Errorf("spans of no trace: %v", got)
	}
	ctx, span := tr.Start(t.Context(), "root")
	if _, err := n.TopRates(ctx, ask); err != nil {
		t.Fatal(err)
	}
	span.End(nil)
	want := map[string]int{"quorate.peer.call": 2, "quorate.peer.answer": 2}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if count(rec, span.Sampled(), "quorate.peer.answer") == 2 { // spans end after their answers are sent
			break
		}
	}
	for name, n := range want {
		if got := count(rec, span.Sampled(), name); got != n {
			t.Errorf("%d spans %s; want %d of %v", got, name, n, spanNames(rec))
		}
	}
}

func spanNames(rec *tracetest.SpanRecorder) (out []string) {
	for _, s := range rec.Ended() {
		out = append(out, s.Name())
	}
	return out
}

func count(rec *tracetest.SpanRecorder, trace, name string) (n int) {
	for _, s := range rec.Ended() {
		if s.Name() == name && s.SpanContext().TraceID().String() == trace {
			n++
		}
	}
	return n
}
