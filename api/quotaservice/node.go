package quotaservice

import (
	"context"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Node is the part of a cluster node that this package uses. All methods are called concurrently.
type Node interface {
	// Decide decides requests, all or nothing. out has the length of reqs.
	Decide(reqs []quota.Request, out []quota.Decision) (allowed bool)
	// Limits returns the current limits, or nil before the first.
	Limits() *quota.Limits
	// LimitVersions returns up to max versions below before (0 means from the newest), newest
	// first.
	LimitVersions(ctx context.Context, before uint64, max int) ([]quota.Version, error)
	// LimitsAt returns a version, or a *quota.UnknownVersionError.
	LimitsAt(ctx context.Context, version uint64) (quota.Version, []quota.Limit, error)
	// TopRates asks the leaders for the keys with the highest demand.
	TopRates(ctx context.Context, req *quoratev1.TopRatesRequest) (*quoratev1.TopRatesResponse, error)
	// Key returns one entry per counter of a key, the entry of its limit's first tier first, or no
	// entries if no limit applies.
	Key(ctx context.Context, k quota.Key) ([]*quoratev1.KeyRate, error)
}
