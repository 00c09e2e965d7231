package gubernator

import (
	"context"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Node is what this package needs of a node. All methods are called
// concurrently.
type Node interface {
	// Batch returns a function for the requests of one call, which is called concurrently. It
	// decides requests, all or nothing; out has the length of reqs. A call waits once for a
	// range whose leader does not answer.
	Batch() func(reqs []quota.Request, out []quota.Decision) (allowed bool)
	// Refund gives tokens back. Limit is nil in the decision if there is no such
	// limit.
	Refund(k quota.Key, cost int64) quota.Decision
	// ResetKey makes a key full, in all tiers of its limit.
	ResetKey(ctx context.Context, k quota.Key) error
	// Limits returns the limits in force, nil if there are none yet.
	Limits() *quota.Limits
	// Status returns the cluster as this node sees it.
	Status() *quoratev1.GetStatusResponse
}
