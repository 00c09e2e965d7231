// Package aggregator stores a key as a bucket, a hot entry, which the request
// path reads, and the key's name. These are their fields, described in state.go, and bytes on a 64-bit
// processor, by group (written by TestStateTable):
//
//	bucket           96  entryPtr deny entry key own rng asked next due repeated mu
//	refState         40  as cancelled local slot
//	openState        56  phase dead recalled left ref term epoch opened closedAt lastUse openIdx
//	countState       96  in over unpaid charged overCutOff refused refunded undecided returned unconfirmed tallied
//	allocationState   24  allocated unbacked voids
//	flightState      16  inFlight beyond
//	windowState      56  since until win lag before undecidedBefore slope
//	leaseState       64  rate cap from base lease offset applied share
//	durableState      8  saved
//	estimateState   104  est estAt estUsed estBack level levelAt others presumed stale looked credit aside hasLevel fresh guessing bound noneFree grantedNothing central noGrantYet
//	reportState     120  sent sentBack acked ackedOver ackedBack want wanted demand pending tries sentAt calm largeOverdraft wantsLevel overdue askAgain
//	deniedState      16  denied deniedCost
//	hotEntry         64  hash held low offset kind key
package aggregator
