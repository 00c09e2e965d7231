package tracing_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quorate/quorate/internal/tracing"
)

// TestOffCostsNothing: a nil tracer allocates nothing, and takes what a tracer takes.
func TestOffCostsNothing(t *testing.T) {
	var off *tracing.Tracer
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		ctx, span := off.Start(ctx, "a")
		span.Text("b", "c")
		span.Int("d", 1)
		_, part := off.Part(ctx, "e")
		part.End(nil)
		_, served := off.Serve(ctx, "f", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
		served.End(nil)
		off.Past("g", time.Time{}).End(nil)
		if off.Parent(ctx) != "" || span.Sampled() != "" {
			t.Error("a trace of nothing")
		}
		span.End(nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestSpans: a call that is passed on stays one trace, over the wire too.
func TestSpans(t *testing.T) {
	rec := tracetest.NewSpanRecorder()
	tr := tracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(rec)))
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	ctx, served := tr.Serve(context.Background(), "served", "00-"+id+"-00f067aa0ba902b7-01")
	ctx, part := tr.Part(ctx, "part")
	parent := tr.Parent(ctx)
	_, far := tr.Serve(context.Background(), "far", parent)
	far.Text("quorate.node", "n2")
	far.Int("quorate.keys", 7)
	far.End(errors.New("broken"))
	part.End(nil)
	if got := served.Sampled(); got != id {
		t.Errorf("the trace is %q", got)
	}
	served.End(nil)
	began := time.Now().Add(-time.Minute)
	tr.Past("past", began).End(nil)
	if _, none := tr.Part(context.Background(), "none"); none.Sampled() != "" {
		t.Error("a part of no trace")
	}
	if got := tr.Parent(context.Background()); got != "" {
		t.Errorf("a parent of no trace: %q", got)
	}
	_, odd := tr.Serve(context.Background(), "odd", "what is that")
	odd.End(nil)
	var got []string
	for _, s := range rec.Ended() {
		got = append(got, s.Name())
		switch in := s.SpanContext().TraceID().String() == id; {
		case in != strings.Contains("served part far", s.Name()):
			t.Errorf("%s: of trace %s", s.Name(), s.SpanContext().TraceID())
		case s.Name() == "past" && s.EndTime().Sub(s.StartTime()) < time.Minute:
			t.Errorf("past took %v", s.EndTime().Sub(s.StartTime()))
		case s.Name() == "far" && (s.Status().Description != "broken" || len(s.Attributes()) != 2):
			t.Errorf("far: %v %v", s.Status(), s.Attributes())
		}
	}
	if all := strings.Join(got, " "); all != "far part served past odd" {
		t.Error(all)
	}
}
