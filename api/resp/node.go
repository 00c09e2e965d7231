package resp

import "github.com/quorate/quorate/internal/quota"

// Node is the part of a cluster node that this package uses. All methods are called concurrently.
type Node interface {
	// AdmitInline makes room for an inline limit that a request carries, out of its owner's share; see
	// aggregator.Aggregator.AdmitInline.
	AdmitInline(limit quota.LimitName, owner string) (ok bool)
	// Decide decides requests, all or nothing. out has the length of reqs.
	Decide(reqs []quota.Request, out []quota.Decision) (allowed bool)
	// Batch returns a function that decides independent calls. They wait for leaders together.
	Batch() func(calls []quota.Call)
	// Limits returns the current limits, or nil before the first.
	Limits() *quota.Limits
}
