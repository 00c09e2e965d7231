// Package scale plays large clusters to see what members and leaders cost: real
// aggregators, real ledgers and the packed form between them, on one thread and in time
// of its own. Leaders are fixed, nothing fails, and nobody compares decisions with an
// ideal: that is what internal/sim is for, which plays one range.
//
// Processor time is that of the thread (CLOCK_THREAD_CPUTIME_ID), read before and after
// each piece of work: collecting and packing reports, unpacking and applying grants,
// unpacking and booking reports and packing grants. What reading the clock takes is
// subtracted. The garbage collector has threads of its own, and is in none of them.
package scale
