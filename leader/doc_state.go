// Package leader stores a key as a bucket, whose state has an allocation for each member. Where
// counts endure, an allocation has a logged. Buckets that are not in use have their state packed
// (pack.go). The list has their fields, described in bucket.go and allocation.go, and their size in
// bytes on a 64-bit processor, by group (written by TestStateTable):
//
//	bucket           64  rule name next packed state
//	visitState       32  alarm seen counted timer dropped watched used
//	state            96  pool allocations outlived
//	bookState        80  attempted admitted listed lastUse ref incarnation fresh keep forced
//	askedState      136  asked rooms own
//	overflowState    32  ended left overflowed overflowAt
//	promiseState     32  implicit outstanding
//	errorState      112  env live forgiven over needless needlessAtMost
//	divisionState    48  batchSizes shared waterLevel central
//	logState         48  logged behindSince dirty saved wanted queued behind overdue
//	announceState     8  announced
//	allocation       16  rare logged
//	openState        24  process epoch closed resetSinceReport restored carriedOver settlesEarlier final dead
//	heldState       120  out returnable held capped unackedTokens rate charged from lease cap grants granted unacked
//	demandState      72  reported reportWithin counts demand live using deficit tried admit asked
//	countState       48  used over refused refunded returned overflowed
//	logged          192  promised pending planned saved want answered ended diedAt lapsed lapsedUntil accruedTo
package leader
