// Package limitertest is the one test suite of all algorithms of package
// limiter. It runs a meter and a reference model through the same history and
// compares everything they say after every step.
//
// The models are slow and exact. They compute on fractions of any size
// (math/big) and are written in another way than the meter: the bucket keeps
// the moment at which tokens are next available, as in the README of
// square/quotaservice; windows keep every charge that was ever made and add up
// those that count; calendar windows are found by walking along the zone's
// clock. What is earliest is not computed at all, but tried: a nanosecond
// before, the model must refuse.
package limitertest
