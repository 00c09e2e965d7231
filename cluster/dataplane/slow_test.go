package dataplane

import (
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/tracing"
)

// TestSlowReports checks that a report answered after more than five sync intervals gets a span, which
// begins when the report was sent.
func TestSlowReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := tracetest.NewSpanRecorder()
		var slow, off slowReports
		slow.init(&Config{Tracer: tracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(rec))), Sync: 100 * time.Millisecond})
		off.init(&Config{Sync: 100 * time.Millisecond})
		report := func(seq quota.Seq) *quota.Report {
			return &quota.Report{Range: 3, Seq: seq, Entries: make([]quota.ReportEntry, 2)}
		}
		grant := func(ack quota.Seq) *quota.Grant {
			return &quota.Grant{Range: 3, From: "n2", Entries: []quota.GrantEntry{{Ack: ack}}}
		}
		slow.sent("n2", report(7))
		time.Sleep(499 * time.Millisecond)
		slow.answered(grant(7))
		slow.answered(grant(7)) // a second grant for the same report
		if got := rec.Ended(); len(got) != 0 {
			t.Fatalf("in time, and there are %v", got)
		}
		slow.sent("n2", report(8))
		time.Sleep(400 * time.Millisecond)
		slow.sent("n2", report(9)) // report 8 still waits
		slow.answered(grant(7))    // answers an earlier report
		time.Sleep(200 * time.Millisecond)
		slow.answered(grant(9))
		ended := rec.Ended()
		if len(ended) != 1 || ended[0].Name() != "quorate.report.slow" || ended[0].EndTime().Sub(ended[0].StartTime()) != 600*time.Millisecond {
			t.Fatalf("%v", ended)
		}
		r, g := report(1), grant(1)
		if n := testing.AllocsPerRun(10, func() { off.sent("n2", r); off.answered(g) }); n != 0 {
			t.Errorf("%v allocations with tracing off", n)
		}
		if off.waiting != nil {
			t.Error("something is kept with tracing off")
		}
	})
}
