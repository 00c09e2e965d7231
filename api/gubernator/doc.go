// Package gubernator serves the wire protocol of gubernator: pb.gubernator.V1 over gRPC, and the
// JSON form of its gateway. Its clients in any language only need to change an address to use
// Quorate. docs/reference/compat/gubernator.md lists the differences for users; this text describes the
// design.
//
//	RateLimitReq --limit.go--> asked --node--> quota.Decision --decide.go--> RateLimitResp
//
// # Which limit
//
// In gubernator the caller gives the limit in each request. Here that limit is a quota.Inline in
// the namespace "gubernator", from which every node derives the same limit, and it is counted for
// name/unique_key. TOKEN_BUCKET is quota.PeriodicRefill, or quota.CalendarWindow with
// DURATION_IS_GREGORIAN; LEAKY_BUCKET is quota.TokenBucket.
//
// The leader of the key's range decides such a limit (quota.AtLeader), as the key's owner does in
// gubernator: callers rely on all servers together admitting the limit. Only with GLOBAL, for which
// any gubernator server answers from what it knows, the node that is asked decides. The two are
// different limits with separate buckets.
//
// If the namespace has a limit of the request's name, that limit decides, counted for unique_key,
// and the request's algorithm, limit, duration and burst are ignored without validation. So limits
// move from the callers to their owners name by name, without a change of the callers. Templates
// and defaults of the namespace are ignored: they would give a caller a limit that was not meant
// for it.
//
// # Differences from gubernator
//
// The documented protocol counts, and the behaviour of gubernator's server on which callers can
// rely. Where that behaviour differs from request to request, this package follows the simpler one.
//
//   - A request with other numbers uses another limit, whose bucket is full. In gubernator it uses
//     the same bucket, which gets the difference (TOKEN_BUCKET) or another rate (LEAKY_BUCKET); but a
//     bucket that has refused answers questions with OVER_LIMIT even after its limit was raised.
//     Numbers that change belong in a limit file, where a change refills nothing.
//   - A question with 0 hits is OVER_LIMIT exactly if one hit would be refused. In gubernator it is
//     what the last request but one left behind.
//   - limit 0 refuses everything with both algorithms. In gubernator LEAKY_BUCKET divides by it.
//   - Hits that can never fit are OVER_LIMIT with why over_burst, without retry_after_ms. gubernator
//     returns only a reset_time, which suggests that waiting helps.
//   - Negative hits fill the bucket up to its capacity. In gubernator it can hold more.
//   - RESET_REMAINING ignores hits, as documented. gubernator counts them if the bucket is new or
//     leaks.
//   - created_at is ignored: with it, the clock of one caller would refill everybody's bucket. The
//     nodes' clocks count.
//   - Gregorian durations are in UTC on all nodes, not in each node's time zone, and weeks work. The
//     rate of a LEAKY_BUCKET per month or year assumes 30 or 365 days; gubernator computes it from
//     the end of the interval.
//   - Names and keys are not joined by "_". In gubernator ("a_b", "c") and ("a", "b_c") are one
//     bucket.
//   - There are no rehashes, full caches or lost batches that reset a bucket; a bucket that is
//     forgotten is full.
//   - BATCHING and NO_BATCHING are the same: questions to a leader that arrive while a message to it
//     is in flight leave together in the next message, and no question waits for more. There is one
//     region, so MULTI_REGION is the same too.
//   - The metadata of an answer has no owner, because keys have none.
//
// # Permissions
//
// GetRateLimits needs the permission check in the namespace "gubernator", giving back hits needs
// report, and RESET_REMAINING needs keys.reset. If one of the last two is missing, the answer of
// that request says so. The health calls need no permission, and show addresses only with
// authentication off: GetStatus then also shows them to everybody.
//
// # Bounds
//
// A call has at most 1000 requests. Names with keys are as long as any key of Quorate, limits and
// hits are at most quota.MaxTokens, durations at most 366 days. A node keeps a bounded number of
// limits that callers describe; one more is an error of its request. A call decides up to 64
// requests at a time, and the requests of one key in order. Requests that are left when the call's
// time is over are errors, and charge nothing.
package gubernator
