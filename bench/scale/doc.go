// Package scale simulates large clusters to measure what members and leaders cost: real
// aggregators, real ledgers and the packed form between them, on one thread and in virtual time.
// Leaders are fixed, nothing fails, and no ideal limiter is compared with the decisions: package
// internal/sim does that, for one range.
//
// Processor time is that of the thread (CLOCK_THREAD_CPUTIME_ID), read before and after each piece
// of work: collecting and packing reports, unpacking and applying grants, unpacking and booking
// reports and packing grants. The cost of reading the clock is subtracted. The garbage collector
// has its own threads, so its time is not included.
package scale
