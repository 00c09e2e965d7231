// Package sim runs the real leader and aggregator code in virtual time: N
// members, one range, a network with delay, jitter, loss, repetition and
// reordering, and a leader that dies. Everything follows from one seed.
//
// [Run] plays a [Scenario] and compares what was admitted with one central
// bucket that sees the same requests at the same moments.
package sim
