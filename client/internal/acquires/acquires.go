// Package acquires marks a check whose caller acquires places if the limit counts requests in flight.
package acquires

import "context"

type key struct{}

// Instead returns a context for such a check: the client does not log that the limit refuses it.
func Instead(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, true) }

// Follows reports whether ctx is from Instead.
func Follows(ctx context.Context) bool { return ctx.Value(key{}) != nil }
