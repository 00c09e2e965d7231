// Package leader stores a key as a bucket with an allocation for each member. Where counts endure,
// an allocation has a logged. The list has their fields, described in bucket.go and allocation.go,
// and their size in bytes on a 64-bit processor, by group (written by TestStateTable):
//
//	bucket          208  key limit tier gains pool allocations outlived
//	bookState        80  attempted admitted listed lastUse ref incarnation fresh keep dropped forced
//	askedState      136  asked rooms own
//	overflowState    32  ended left overflowed overflowAt
//	promiseState     32  implicit outstanding
//	errorState      120  sums env live forgiven over needless needlessAtMost
//	divisionState    48  batchSizes shared most central
//	logState         48  logged behindSince dirty saved wanted queued behind overdue
//	visitState       32  alarm seen timer counted
//	openState        40  node inc epoch closed resetSinceReport restored carriedOver settlesEarlier final dead
//	heldState       120  out returnable held capped unackedTokens rate charged from lease cap grants granted unacked
//	demandState     136  reported reportWithin demand live using deficit awaited unmet unmetAt recalled counts tried admit asked
//	countState       88  used over refused refunded returned owed alone inFlight overflowed lastUsed lastReturned
//	durableState     24  saved want logged
//	logged          136  promised pending planned diedAt
package leader
