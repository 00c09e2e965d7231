// Package aggregator stores a key as a bucket, a hot entry, which the request
// path reads, and the key's name. These are their fields, described in state.go, and bytes on a 64-bit
// processor, by group (written by TestStateTable):
//
//	bucket           96  entryPtr deny entry key own rng asked next due repeated mu
//	refState         24  as windowState rareState
//	smallState       32  ref openIdx share voids phase dead recalled hasLevel fresh guessing bound noneFree grantedNothing central noGrantYet calm largeOverdraft wantsLevel overdue askAgain
//	openState        32  term epoch changed lastUse
//	countState       80  in over unpaid refused refunded undecided returned unconfirmed tallied
//	leaseState       64  rate cap from base lease offset lag applied
//	estimateState    80  est estAt estUsed estBack level levelAt others presumed stale looked
//	reportState     104  sent sentBack acked ackedOver ackedBack want wanted demand pending sentAt
//	windowState      48  since until win before undecidedBefore slope
//	rareState       160  cancelled local slot allocated unbacked inFlight beyond charged overCutOff saved credit aside largest denied deniedCost answered pledged refundedFrom tries left outgrown
//	hotEntry         64  hash held low offset kind key
package aggregator
