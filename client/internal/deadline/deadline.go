// Package deadline decides by a context's deadline whether the context has ended.
package deadline

import (
	"context"
	"time"
)

// Err returns ctx.Err(), and context.DeadlineExceeded if the deadline has passed and the context does not
// say so yet. On a busy machine a node that was asked until the deadline may answer first.
func Err(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ctx.Err() == nil && ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}
