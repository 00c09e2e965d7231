package api

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/internal/tracing"
)

// A call that its caller traces, and samples, leaves the id of its trace with the time that it
// took (an exemplar), so that a slow bucket of a dashboard leads to a trace. The header is that
// of W3C Trace Context; no tracing has to be set up here for it.
// sampledTrace returns the id of a traceparent that is sampled, else "".
func sampledTrace(parent string) string {
	const version, trace, span, end = 2, 35, 52, 55 // where each part ends
	if len(parent) < end || parent[version] != '-' || parent[trace] != '-' || parent[span] != '-' ||
		parent[:version] == "ff" || len(parent) > end && parent[end] != '-' {
		return ""
	}
	id, zero := parent[version+1:trace], true
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
		zero = zero && c == '0'
	}
	if flags := parent[end-1]; zero || !hexOdd(flags) {
		return ""
	}
	return id
}

// hexOdd reports whether a hexadecimal digit is odd: the lowest bit of the flags says sampled.
func hexOdd(c byte) bool {
	switch c {
	case '1', '3', '5', '7', '9', 'b', 'd', 'f':
		return true
	}
	return false
}

// parentOf returns the traceparent of a gRPC call, "" if it has none.
func parentOf(ctx context.Context) string {
	if v := metadata.ValueFromIncomingContext(ctx, tracing.Header); len(v) > 0 {
		return v[0]
	}
	return ""
}

// tracedCall returns the id of the sampled trace that a gRPC call is part of, else "".
func tracedCall(ctx context.Context) string { return sampledTrace(parentOf(ctx)) }

// took observes a time, with the trace if there is one.
func took(o prometheus.Observer, seconds float64, trace string) {
	if e, ok := o.(prometheus.ExemplarObserver); ok && trace != "" {
		e.ObserveWithExemplar(seconds, prometheus.Labels{"trace_id": trace})
		return
	}
	o.Observe(seconds)
}
