package envoy

import "github.com/quorate/quorate/internal/quota"

// Node is the part of a cluster node that this package uses. All methods are called concurrently.
type Node interface {
	// AdmitInline makes room for an inline limit that a request carries, out of its owner's share; see
	// aggregator.Aggregator.AdmitInline.
	AdmitInline(limit quota.LimitName, owner string) (ok bool)
	// Batch returns a function that decides independent calls. They wait for leaders together.
	Batch() func(calls []quota.Call)
	// Charge books used tokens, however little is left, down to quota.Limit.OwedUnits below zero.
	Charge(k quota.Key, used int64) (booked int64, d quota.Decision)
	// Limits returns the current limits, or nil before the first.
	Limits() *quota.Limits
}
