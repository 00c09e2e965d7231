// Package backoff waits between retries.
package backoff

import (
	"context"
	"time"
)

// Sleep waits for d, or until ctx ends, and then returns its error.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Bound returns the longest pause before a retry: first before retry 0, and twice as much before each
// further one, at most last.
func Bound(first, last time.Duration, retry int) time.Duration {
	return min(first<<min(retry, 10), last)
}
