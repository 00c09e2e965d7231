// Package bound computes how far a limit can be exceeded: the number of tokens beyond burst + rate
// x time that a key may be admitted, in each situation, with the formula and its numbers.
//
// # Derivation
//
// Under soft a member admits, beyond what it holds, only what it estimates the global level to
// cover: the level in its last grant, at most the burst, plus what the rate has refilled since
// (aggregator: decideOpen, estimate). So no member overdraws more than
//
//	burst + rate x age
//
// before its next grant, where age is the longest time between grants: two sync intervals and two
// round trips (Age). One member may count on a burst that is really there; then the other N-1 count
// on one that is not.
//
// The refill rate x age may be there for none of the N members. A member spends held tokens without
// reading the clock (aggregator: decide), so it knows how much was used since its last grant, but
// not when. If the bucket was full until just before, the refill had overflowed, and the member
// counts it all the same. A single node can be wrong by that amount. So if all N learn the same
// level at one moment, each uses at most level + rate x age, while the cluster had at least level:
//
//	N x (level + rate x age) - level  <=  (N-1) x burst + N x rate x age
//
// That is the worst case. It takes a surge of a whole burst at every node within one round trip. In
// practice the excess is far smaller because of grants (they arrive within a round trip), because
// each member subtracts the others' demand, and because a member asks before it overdraws more than
// level/2N. How much smaller is measured, not derived: Typical.
//
// Client processes share what their node may admit: what one of them may spend, because it was lent
// or may be overdrawn, is subtracted from what the others get. Except for a little: each may be
// lent 4 tokens and overdraw 4 (package clientledger). That no more clients than that do so at the same
// time is not derived: TestMixedCostsOfClients of internal/sim tests it with random requests.
//
// Under hard only held tokens are spent, and held tokens are deducted from the pool: the bound is
// 0, except for what Exceptions lists.
//
// TestBound of internal/sim tests Worst with random scenarios.
package bound
