// Package leader stores a key as a bucket, whose state has an allocation for each member. Where
// counts endure, an allocation has a logged. Buckets that are not in use have their state packed
// (pack.go). The list has their fields, described in bucket.go and allocation.go, and their size in
// bytes on a 64-bit processor, by group (written by TestStateTable):
//
//	bucket           56  rule name packed state
//	visitState       32  alarm seen counted timer dropped watched used
//	state           112  pool allocations rooms decided unusual
//	bookState        88  attempted admitted listed lastUse ref incarnation fresh keep implicit mayOwe
//	overflowState    32  ended left overflowed overflowAt
//	errorState       80  env live
//	divisionState    40  batchSizes shared waterLevel central
//	logState         48  logged behindSince dirty saved wanted queued behind overdue
//	announceState     8  announced
//	allocation       24  unacked rare logged
//	openState        24  process epoch within closed resetSinceReport restored carriedOver settlesEarlier final dead
//	heldState        88  out returnable held capped rate charged from lease cap grants granted
//	demandState      56  reported counts demand live using deficit tried admit
//	countState       32  used over refused returned
//	logged          192  promised pending planned saved want answered ended diedAt lapsed lapsedUntil accruedTo
package leader
