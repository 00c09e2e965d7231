// Package tracing is what the edges of a node use of OpenTelemetry: spans of joins, plans,
// moves, slow reports, and calls that are passed on. It needs the API of traces alone; who
// exports them is set up elsewhere (package export).
//
// A nil *Tracer is off: its spans are nothing, and cost no allocation.
package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Header is what carries a trace from process to process: W3C Trace Context.
const Header = "traceparent"

const scope = "github.com/quorate/quorate"

// Tracer makes spans. Safe for concurrent use.
type Tracer struct{ tracer trace.Tracer }

// New returns a tracer whose spans go to a provider.
func New(p trace.TracerProvider) *Tracer { return &Tracer{p.Tracer(scope)} }

// Start begins a span, within that of ctx if there is one.
func (t *Tracer) Start(ctx context.Context, name string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	ctx, s := t.tracer.Start(ctx, name)
	return ctx, Span{s}
}

// Serve begins the span of a call from another process, whose traceparent is parent; "" if it
// told none.
func (t *Tracer) Serve(ctx context.Context, name, parent string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	if parent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{Header: parent})
	}
	ctx, s := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	return ctx, Span{s}
}

// Part begins a span of a call to another process, if ctx has a trace that it is part of.
func (t *Tracer) Part(ctx context.Context, name string) (context.Context, Span) {
	if t == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, Span{}
	}
	ctx, s := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
	return ctx, Span{s}
}

// Past begins a span that began earlier and is known to be worth telling only now.
func (t *Tracer) Past(name string, began time.Time) Span {
	if t == nil {
		return Span{}
	}
	_, s := t.tracer.Start(context.Background(), name, trace.WithTimestamp(began))
	return Span{s}
}

// Parent returns the traceparent of the span in ctx, "" if there is none.
func (t *Tracer) Parent(ctx context.Context) string {
	if t == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, c)
	return c[Header]
}

// Span is one span; the zero Span is none.
type Span struct{ span trace.Span }

// Text sets an attribute. Keys of limits and tokens are none.
func (s Span) Text(name, value string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String(name, value))
	}
}

// Int sets an attribute.
func (s Span) Int(name string, value int64) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int64(name, value))
	}
}

// Sampled returns the id of the span's trace if it is sampled, else "".
func (s Span) Sampled() string {
	if s.span == nil || !s.span.SpanContext().IsSampled() {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}

// End ends the span; err is how what it was of has failed, or nil.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, err.Error())
	}
	s.span.End()
}
