// Package plan answers planning questions from recorded demand: what another limit would have refused,
// which limit would have refused no more than a given part, and when a limit will become too small.
//
// The package is pure: it computes numbers from demand.
//
// # What if
//
// Demand is recorded by the second. A request may have come at any moment within its second, so Replay
// returns two counts that enclose the truth: one for a meter to which everything came at the best
// moments, and one for a meter to which it came at the worst. For windows that begin and end on whole
// seconds the two are equal, and the answer is exact. The demand must be of one key: a limit that counts
// by key cannot be replayed on a sum over keys. Each request is assumed to cost one token. A limit that
// serves larger requests refuses up to one such request more in each second in which it refuses anything.
//
// # Forecast
//
// The trend is the median of the slopes between all pairs of days (Theil, 1950; Sen, 1968), so a few wild
// days do not move it. From three weeks on, each weekday has a part: the median deviation of its days
// from the trend. The interval lies between quantiles of what remains. A forecast is valid for weeks, not
// for years, and states how many days it is based on.
package plan
