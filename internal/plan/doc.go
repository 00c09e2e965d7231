// Package plan answers planners' questions from recorded demand: what another limit would
// have refused, which limit would have refused no more than so much, and when a limit
// will be too small.
//
// It is pure: demand in, numbers out.
//
// # What if
//
// Demand is recorded by the second. What came within a second may have come at any moment
// of it, so Replay returns two counts and the truth is between them: one of a meter to
// which everything came at the best moments, and one of a meter to which it came at the
// worst. For windows that begin and end on whole seconds they are the same: the
// answer is exact. The demand must be of one key: a limit that counts by key cannot
// be replayed on a sum over keys. Costs are taken to be one token each; a limit that
// is asked for many tokens at once refuses up to one such request more for each
// second in which it refuses something.
//
// # Forecast
//
// The trend is the median of the slopes between all pairs of days (Theil, 1950; Sen,
// 1968), which a few wild days do not move; the weekday's part is the median of what
// its days were above or below the trend, from three weeks on; the interval is between
// quantiles of what remains. It is for weeks, not for years, and says how many days it is
// made of.
package plan
