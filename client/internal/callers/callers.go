// Package callers marks a check that is made for a caller of the program. The caller may set its
// deadline, so a check that ends early says nothing about the nodes.
package callers

import (
	"context"
	"time"

	"github.com/quorate/quorate/client/internal/deadline"
)

// Enough is the time after which a node that has not answered is at fault, also if a caller has set
// the deadline.
const Enough = 100 * time.Millisecond

type key struct{}

// For returns a context for a check for the caller of a request with that context.
func For(ctx context.Context) context.Context {
	if _, ok := ctx.Deadline(); !ok {
		return ctx
	}
	return context.WithValue(ctx, key{}, ctx)
}

// Hurried reports whether ctx is from For, and its caller's deadline has passed before a node had
// Enough time.
func Hurried(ctx context.Context, took time.Duration) bool {
	caller, _ := ctx.Value(key{}).(context.Context)
	return caller != nil && took < Enough && deadline.Err(caller) != nil
}
