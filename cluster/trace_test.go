package cluster

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/tracing"
)

func spanRecorder() (*tracetest.SpanRecorder, *tracing.Tracer) {
	rec := tracetest.NewSpanRecorder()
	return rec, tracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(rec)))
}

// TestForwardedCallsAreTraced: what a call asks of other nodes is part of its trace, at both
// ends; without a trace there are no spans.
func TestForwardedCallsAreTraced(t *testing.T) {
	rec, tr := spanRecorder()
	c := newTrio(t, 3, func(cfg *Config) { cfg.Tracer = tr })
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
		if count(rec, span.Sampled(), "quorate.peer.answer") == 2 { // ended after their answers left
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

// TestSlowReports: a report that is answered after five sync intervals has a span, from when
// it was sent.
func TestSlowReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, tr := spanRecorder()
		n := &Node{cfg: Config{Tracer: tr, Sync: 100 * time.Millisecond}}
		report := func(seq quota.Seq) *quota.Report {
			return &quota.Report{Range: 3, Seq: seq, Entries: make([]quota.ReportEntry, 2)}
		}
		grant := func(ack quota.Seq) *quota.Grant {
			return &quota.Grant{Range: 3, From: "n2", Entries: []quota.GrantEntry{{Ack: ack}}}
		}
		n.slow.sent(n, "n2", report(7))
		time.Sleep(499 * time.Millisecond)
		n.slow.answered(n, grant(7))
		n.slow.answered(n, grant(7)) // a second grant for the same
		if got := spanNames(rec); len(got) != 0 {
			t.Fatalf("in time, and there are %v", got)
		}
		n.slow.sent(n, "n2", report(8))
		time.Sleep(400 * time.Millisecond)
		n.slow.sent(n, "n2", report(9)) // the first is still waited for
		n.slow.answered(n, grant(7))    // answers an earlier one
		time.Sleep(200 * time.Millisecond)
		n.slow.answered(n, grant(9))
		ended := rec.Ended()
		if len(ended) != 1 || ended[0].Name() != "quorate.report.slow" || ended[0].EndTime().Sub(ended[0].StartTime()) != 600*time.Millisecond {
			t.Fatalf("%v", spanNames(rec))
		}
		off := &Node{cfg: Config{Sync: 100 * time.Millisecond}}
		r, g := report(1), grant(1)
		if n := testing.AllocsPerRun(10, func() { off.slow.sent(off, "n2", r); off.slow.answered(off, g) }); n != 0 {
			t.Errorf("%v allocations with tracing off", n)
		}
		if off.slow.waiting != nil {
			t.Error("something is kept with tracing off")
		}
	})
}
