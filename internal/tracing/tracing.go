// Package tracing wraps the parts of OpenTelemetry that a node uses: spans of joins, plans, moves,
// slow reports and forwarded calls. It depends on the tracing API only; package export sets up
// exporters.
//
// A nil *Tracer is disabled: its spans do nothing and cost no allocation.
package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Header is the header that carries a trace between processes: W3C Trace Context.
const Header = "traceparent"

const scope = "github.com/quorate/quorate"

// Tracer starts spans. It is safe for concurrent use.
type Tracer struct{ tracer trace.Tracer }

// New returns a tracer that uses the provider.
func New(p trace.TracerProvider) *Tracer { return &Tracer{p.Tracer(scope)} }

// Start starts a span, as a child of the span in ctx if there is one.
func (t *Tracer) Start(ctx context.Context, name string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	ctx, s := t.tracer.Start(ctx, name)
	return ctx, Span{s}
}

// Serve starts the span of a call from another process. parent is its traceparent, or empty.
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

// Part starts the span of a call to another process if ctx has a span.
func (t *Tracer) Part(ctx context.Context, name string) (context.Context, Span) {
	if t == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, Span{}
	}
	ctx, s := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
	return ctx, Span{s}
}

// Past starts a span with an earlier start time, for operations that turn out to be slow.
func (t *Tracer) Past(name string, began time.Time) Span {
	if t == nil {
		return Span{}
	}
	_, s := t.tracer.Start(context.Background(), name, trace.WithTimestamp(began))
	return Span{s}
}

// Parent returns the traceparent of the span in ctx, or "".
func (t *Tracer) Parent(ctx context.Context) string {
	if t == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, c)
	return c[Header]
}

// Span is a span that may be disabled. The zero Span does nothing.
type Span struct{ span trace.Span }

// Text sets an attribute. Keys of limits and secrets must not be attributes.
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

// Sampled returns the ID of the span's trace if it is sampled, else "".
func (s Span) Sampled() string {
	if s.span == nil || !s.span.SpanContext().IsSampled() {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}

// End ends the span. err is the error of the operation, or nil.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, err.Error())
	}
	s.span.End()
}
