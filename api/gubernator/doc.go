// Package gubernator serves the wire protocol of gubernator: pb.gubernator.V1 over
// gRPC, and the JSON form of its gateway. Its clients in any language reach Quorate
// by a change of address. docs/compat/gubernator.md tells users what differs; this
// text is the design.
//
//	RateLimitReq --limit.go--> asked --node--> quota.Decision --decide.go--> RateLimitResp
//
// # Which limit
//
// There the caller says in each request how large the limit is. Here that is a
// quota.Inline in the namespace "gubernator", out of which every node makes the same
// limit; it is counted for name/unique_key. TOKEN_BUCKET is quota.PeriodicRefill,
// with DURATION_IS_GREGORIAN quota.CalendarWindow; LEAKY_BUCKET is quota.TokenBucket.
//
// Such a limit is decided by the leader of the key's range (quota.AtLeader), as there the
// key's owner decides: callers count on it that all servers together admit the limit. Only
// GLOBAL, which there lets every server answer by what it knows, is decided by the node
// that is asked. The two are different limits, with buckets of their own.
//
// When the namespace has a limit of the request's name, that limit decides, counted
// for unique_key, and what the request says of algorithm, limit, duration and burst
// does not count, nor is it looked at. So a limit moves from the callers to its
// owners without a change of the callers, name by name. Templates and defaults of the
// namespace are not looked at: a caller would get a limit that nobody meant for it.
//
// # What is not theirs
//
// What is written there of the protocol counts, and of its server's doings what
// callers can rely on. Where they differ from request to request, the simpler holds.
//
//   - A limit that is asked for with other numbers is another limit, and its bucket
//     is full. There it is the same bucket, which gets the difference (TOKEN_BUCKET),
//     or another rate (LEAKY_BUCKET); but a bucket that had refused says OVER_LIMIT to
//     whoever only asks, after its limit was raised too. Numbers that change belong
//     into a limit file, where a change refills nothing.
//   - Whoever asks with 0 hits is told OVER_LIMIT exactly when one hit would be
//     refused. There it is what the last request but one left behind.
//   - limit 0 refuses all with both algorithms. There LEAKY_BUCKET divides by it.
//   - Hits that could never fit are OVER_LIMIT with why over_burst, without
//     retry_after_ms. There only a reset_time is told, which looks as if it helped.
//   - Negative hits fill the bucket up to its capacity. There it can hold more.
//   - RESET_REMAINING does not look at hits, as is written there. There it does,
//     where the bucket is new or leaks.
//   - created_at is not looked at: with it one caller's clock would refill the
//     bucket of all. The nodes' clocks count.
//   - Gregorian durations are of UTC on all nodes, not of each node's own zone, and
//     weeks are served. The rate of a LEAKY_BUCKET per month or year is that of 30 or
//     365 days, in place of what its server computes from the end of the interval.
//   - Names and keys are not joined by "_", where ("a_b", "c") and ("a", "b_c") are
//     one bucket.
//   - A rehash, a full cache or a batch that was lost resets nothing, because there
//     is none of them; a bucket that is forgotten is full.
//   - BATCHING and NO_BATCHING are the same: what is asked of a leader while a message to
//     it is under way leaves together in the next, and nothing waits for more. There is
//     one region, so that MULTI_REGION is the same too.
//   - The metadata of an answer has no owner, as there is none.
//
// # Who calls
//
// GetRateLimits needs the permission check in the namespace "gubernator", giving hits
// back report, and RESET_REMAINING keys.reset; who lacks one of the last two reads so
// in the answer of that request. The health calls need nothing, and tell addresses only where authentication is off: there
// GetStatus tells them to everybody too.
//
// # Bounds
//
// 1000 requests in a call; names with keys as long as any key here; limits and hits up
// to quota.MaxTokens; durations up to 366 days. A node follows a bounded number of
// limits that callers describe: one more is an error of its request. Up to 64 requests of
// a call are decided at a time, those of one key in their order; those that are left when
// its time is over are errors, and charged nothing.
package gubernator
