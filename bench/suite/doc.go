// Package suite measures several subjects side by side and compares them.
//
// A [Group] is a table: subjects that do the same work. They run in rounds, each subject once per
// round and for a short time, so that a disturbance of the machine affects all of them. Ratios are
// taken within a round, between subjects that ran within a second or so of each other, and the
// tables show the median over the rounds: it varies far less than the figures behind it.
//
// A [Target] is a promise about a measure of Quorate: a multiple of another subject's measure in
// the same run or, for sizes, a plain number.
package suite
