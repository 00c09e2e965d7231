// Package acquires marks a check whose caller acquires places if the limit counts requests in flight.
package acquires

import "context"

type key struct{}

// NewContext returns a context for such a check: the client does not log that the limit refuses it.
func NewContext(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, true) }

// InContext reports whether ctx is from NewContext.
func InContext(ctx context.Context) bool { return ctx.Value(key{}) != nil }
