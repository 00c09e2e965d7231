// Package limiter holds the algorithms, on integers.
//
// It is pure: time is an argument, there is no clock, lock or goroutine, and
// no floating point, so that replicas on different CPUs compute the same.
//
// [Bucket] is the token bucket (Turner, "New directions in communications",
// IEEE Communications Magazine 1986) with an exact remainder: a rate such as
// 7 tokens in 3 seconds loses nothing to rounding over any length of time.
//
// [Meter] is the level of one tier, of any kind, and [Meter.Take] the whole
// algorithm that one central place would run. A bucket with debt is that of
// square/quotaservice's README. A sliding window is the one with two counters,
// seen as a level: it gains, over each window, what the window before it used;
// so members can follow it as they follow a bucket, by a level and a slope.
//
// [Window] says when windows begin and end, in the calendar of any zone.
//
// Package limitertest holds every algorithm to an exact model of it.
package limiter
