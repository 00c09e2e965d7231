// Package limiter implements the algorithms on integers.
//
// It is pure: time is an argument, and there is no clock, lock, goroutine or floating point, so
// replicas on different CPUs compute the same results.
//
// [Bucket] is the token bucket (Turner, "New directions in communications", IEEE Communications
// Magazine 1986) with an exact remainder: a rate such as 7 tokens in 3 seconds loses nothing to
// rounding over any length of time.
//
// [Meter] is the level of one tier of any kind. [Meter.Take] is the complete algorithm that a single central limiter
// would run. A bucket with debt works as in square/quotaservice. A sliding window is the one with two counters,
// expressed as a level: during each window it gains the previous window's use. So members can follow it as they
// follow a bucket, by a level and a slope.
//
// [Window] computes when windows begin and end, in the calendar of any time zone.
//
// Package limitertest checks every algorithm against an exact model of it.
package limiter
