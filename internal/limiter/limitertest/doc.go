// Package limitertest is the test suite of all algorithms of package limiter. It runs a meter and a
// reference model through the same history and compares all their results after every step.
//
// The models are slow and exact. They compute on fractions of any size (math/big), by other methods
// than the meter: the bucket keeps the time at which tokens are next available, as in the README of
// square/quotaservice; windows keep every charge and sum those that count; calendar windows are
// found by stepping along the zone's clock. Earliest times are not computed but tried: a nanosecond
// earlier, the model must refuse.
package limitertest
