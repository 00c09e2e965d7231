// Package benchtest compares what is measured with a reference in the same run: the two
// take turns, in slices of some tens of microseconds, and processor time is counted, not
// the time that passes. So the ratio says much the same on a busy machine, where the
// nanoseconds say little.
package benchtest
