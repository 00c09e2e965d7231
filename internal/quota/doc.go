// Package quota is the vocabulary that every other package shares: names,
// units, rates, limits, and the messages between members and leaders.
//
// It is a pure leaf. It imports nothing of this module, reads no clock, starts
// no goroutine and holds no lock, so that the leader, the aggregator and the
// simulator can all speak it.
//
// # Units
//
// Tokens are what callers spend, whole numbers. Inside, every balance is kept
// in [Units], millionths of a token, as int64: a member may be granted a
// fraction of a token, and integers never drift and never differ between CPU
// types. Rates are exact fractions ([Rate]: tokens per period), so 10/m is ten
// tokens in sixty seconds, not 0.1666.
//
// # Time
//
// [Time] is nanoseconds on the clock of whoever speaks: the Unix epoch, read
// once at start, plus monotonic progress. Two nodes' times are never compared
// without an offset (see package aggregator).
//
// # Messages
//
// A [Report] goes from a member to the leader of a range, a [Grant] comes back.
// Both carry the Raft term; counters inside are cumulative, so that a message
// lost, repeated or reordered changes nothing in the end.
package quota
