// Package quota defines the types that all other packages share: names, units, rates, limits, and
// the messages between members and leaders.
//
// It is a pure leaf package: it imports nothing of this module, reads no clock, starts no goroutine
// and holds no lock. So the leader, the aggregator and the simulator can all use it.
//
// # Units
//
// Callers spend tokens, in whole numbers. Balances are kept in [Units], millionths of a token, as
// int64: a member may be granted a fraction of a token, and integers neither drift nor differ
// between CPUs. Rates are exact fractions ([Rate]: tokens per period), so 10/m is ten tokens in
// sixty seconds, not 0.1666 per second.
//
// # Time
//
// [Time] is nanoseconds since the Unix epoch on the node's own clock, which is steered towards the wall
// clock and never runs backwards (package cluster/clock). Times of two nodes are compared only with an
// offset between them (package aggregator).
//
// # Messages
//
// A member sends a [Report] to the leader of a range, which answers with a [Grant]. Both carry the
// Raft term. Counters in them are cumulative, so a lost, repeated or reordered message changes
// nothing in the end.
package quota
