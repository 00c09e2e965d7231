// Package rlqs serves envoy.service.rate_limit_quota.v3.RateLimitQuotaService, the protocol of
// Envoy's rate limit quota filter ("RLQS v3"): proxies decide locally with an assignment for each
// bucket, and report their decisions. docs/reference/compat/envoy-rlqs.md lists every field and behaviour,
// with its test.
//
//	reports --names.go--> key --assigner.go--> package share --encode.go--> assignments
//	                                            |
//	                                    the node: Draw, Miss, Refund, Standing
//
// A bucket of a stream is a member one level below the node. Package share divides the node's
// tokens of a limit among its members. The leader of the range decides how many tokens each node
// gets, by the demand of all nodes. So the assignments of all proxies on all nodes come out of one
// limit. [The RFC](docs/rfcs/20261122_rlqs.md) and package share describe the division, its
// guarantees and its measurements.
//
// # Which limit
//
// A bucket id is a descriptor whose entries are sorted by key. descriptor.Index finds its limit as
// for any other of Envoy's descriptors. After a change of the limits, the bucket's next report
// finds the limit again.
//
// # What Envoy makes of it
//
// The schema allows more than Envoy implements. This package sends and expects only what works with
// both:
//
//   - Envoy reports the time since the last report in whole seconds, so the node measures it;
//   - Envoy divides by zero for a fill interval of less than a second, and does not notice a change
//     of the other seconds: intervals are 1s to 1h, and two buckets that differ in nothing else are
//     made to differ by a token;
//   - Envoy counts a time to live in whole seconds, and ends an assignment without one at once:
//     every assignment has one;
//   - Envoy does not understand requests_per_time_unit or an assignment without a strategy: the node
//     sends token buckets and blanket rules;
//   - Envoy fills a bucket that it replaces: share counts the cost;
//   - Envoy sends the domain in every report, but later reports may omit it. The validation
//     generated from the schema requires it in all reports, so this package does not use it.
//
// # Deviations
//
//   - A bucket without a limit is abandoned once. If the proxy still uses it, the node lets it
//     through, because a filter without the bucket would report every request of it.
//   - An invalid bucket, or a bucket beyond a bound, gets no answer and is counted in metrics: the
//     proxy treats it as before any assignment. Ending the stream would end its other buckets too.
//   - Concurrency limits let everything pass (soft) or nothing (hard): the protocol has no release.
//     The protocol has no costs other than 1.
//   - For a limit with decide: leader, the node asks on behalf of all its proxies, 20 times a second.
//
// # Bounds
//
// A node has at most 4096 streams, 1000 buckets per stream and 100,000 buckets in all. One caller
// (a proven identity, else an address) has at most seven eighths of the streams and of the buckets
// that are free, and leaves the rest to others; several callers can still take all. A smaller share would
// be too little for a fleet whose proxies have one identity. A message
// has at most 4096 buckets and the server's 4 MiB; a bucket id has at most 32 keys with 512 bytes
// per key and value and 2 KiB in all. A stream may send 200 messages per second with a burst of 2000; beyond that
// the node reads it more slowly. One assignment per bucket waits to be sent, the newest. The node
// ends a stream whose proxy has not read for 2s.
package rlqs
