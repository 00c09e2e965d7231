package gubernator

import (
	"context"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Node is the part of a cluster node that this package uses. All methods are called concurrently.
type Node interface {
	// AdmitInline makes room for an inline limit that a request carries, out of its owner's share; see
	// aggregator.Aggregator.AdmitInline.
	AdmitInline(limit quota.LimitName, owner string) (ok bool)
	// Batch returns a function that decides independent calls, and that is called concurrently. It
	// waits only once for the answer, and once for a grant, of a leader that is silent.
	Batch() func(calls []quota.Call)
	// ResetKey refills a key in all tiers of its limit.
	ResetKey(ctx context.Context, k quota.Key) error
	// Limits returns the current limits, or nil before the first.
	Limits() *quota.Limits
	// Status returns the cluster as this node sees it.
	Status() *quoratev1.GetStatusResponse
}
