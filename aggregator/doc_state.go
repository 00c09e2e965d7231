// Package aggregator stores a key as a bucket, a line of the table, which the request path reads, and the
// name. These are their fields, described in state.go, and bytes on a 64-bit processor, by group (written by
// TestStateTable):
//
//	bucket           96  line asked rng next slot key own due shut mu
//	openState        64  phase dead recalled ref term epoch opened closedAt lastUse as openIdx
//	countState       88  in over unpaid charged unled refused refunded returned unheard tallied
//	loanState        24  loans unbacked voids
//	flightState      16  inFlight lent
//	windowState      48  since until win lag before slope
//	leaseState       64  rate cap from base lease offset applied share
//	durableState     24  saved place
//	estimateState   104  est estAt estUsed estBack level toldAt others ceded stale looked credit aside told fresh guessing bound dry barren
//	reportState     128  sent sentBack acked ackedOver ackedBack want wanted demand pending tries sentAt abandoned news curious overdue hurry
//	deniedState      16  denied deniedCost
//	aloneState        8  apart
//	line             64  hash held low rest kind key
package aggregator
