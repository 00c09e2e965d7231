// Package suite measures several subjects beside each other and says how they
// compare.
//
// A [Group] is a table: subjects that do the same work. They run in rounds, each
// subject once in every round and for a short time, so that what disturbs the
// machine disturbs all of them. A ratio is taken within a round, between subjects
// that ran within a second or so of each other, and the median of the rounds is
// shown: it moves far less than the figures that it is made of.
//
// A [Target] is what Quorate promises of a measure: a multiple of another subject's
// of the same run, or, for sizes, a plain number.
package suite
