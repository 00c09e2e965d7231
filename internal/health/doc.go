// Package health sums up a cluster's state in a word and a line, for "quorate status" and the top
// of the console.
//
// It is a pure function of a status: that of one node, optionally with the readiness that the
// other nodes report of themselves (see [Readiness]).
package health
