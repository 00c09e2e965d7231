// Package bound says how wrong a limit can be: how many tokens beyond
// burst + rate x time a key may be admitted at most, in each situation, with the
// formula and its numbers.
//
// # Where the formulas come from
//
// Under soft a member admits, beyond what it holds, only what it believes the
// global level to cover: the level that it was last told, at most the burst, and
// what the rate refilled since (aggregator: decideOpen, estimate). So no member
// overdraws more than
//
//	burst + rate x age
//
// before it is told again, where age is how long that takes: two sync intervals
// and two round trips (Age). One member may believe in a burst that is there; what
// the N-1 others believe in is then not.
//
// What refilled, rate x age, may be there for none of the N. A member takes what it
// holds without reading the clock (aggregator: decide), so it knows how much was
// used since it was told, and not when. If the bucket was full until just before,
// what refilled had overflowed, and the member counts it all the same. One node
// alone can be wrong by that. So, with all N told the same level at one moment,
// each uses at most level + rate x age, while the cluster had at least level:
//
//	N x (level + rate x age) - level  <=  (N-1) x burst + N x rate x age
//
// That is the worst that the code can do, and it takes a surge of a whole burst at
// every node within one round trip. What keeps real
// excess far below are grants (they are made within a round trip), the others'
// demand, which each member takes off, and that a member asks before it overdraws
// more than level/2N (guesses). How far is measured and not derived: Typical.
//
// Client processes share what their node may admit: what one may spend, because it was lent
// or may be overdrawn, is taken off what the others are told. A little of that one may
// have all the same: be lent 4 tokens, and overdraw 4 (package branch). That more of them do so at once than hear of each
// other is not derived: TestMixedCostsOfClients of internal/sim plays random requests against it.
//
// Under hard nothing is admitted that is not held, and what is held is out of the
// pool: 0, but for what Exceptions lists.
//
// TestBound of internal/sim plays random scenarios against Worst.
package bound
