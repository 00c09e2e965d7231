// Package rlqs serves envoy.service.rate_limit_quota.v3.RateLimitQuotaService, the
// protocol of Envoy's rate limit quota filter ("RLQS v3"): proxies decide by
// themselves, by an assignment for each bucket, and report what they did.
// docs/compat/envoy-rlqs.md has every field and behaviour, with its test.
//
//	reports --names.go--> key --assigner.go--> package share --encode.go--> assignments
//	                                            |
//	                                    the node: Draw, Miss, Refund, Standing
//
// A bucket of a stream is a member one level below the node. What the node gets of a
// limit package share divides among them; what a node gets its range's leader has
// decided, by what all nodes ask for. So the assignments of all proxies on all nodes
// come out of one limit. The division, what it promises and what was measured is in
// [the RFC](docs/rfcs/20261122_rlqs.md) and in package share.
//
// # Which limit
//
// A bucket id is a descriptor whose entries are in the order of their keys; its limit is
// found as that of any other of Envoy's descriptors, by descriptor.Index. When limits
// change it is found anew with the bucket's next report.
//
// # What Envoy makes of it
//
// The schema allows more than Envoy does with it, so that this package sends and
// expects only what works with both:
//
//   - the time that a report is about is in whole seconds: reports are timed here;
//   - a fill interval of less than a second would be a division by zero there, and one
//     of other seconds is not seen as a change: intervals are 1s to 1h, and buckets that
//     differ in nothing else are made to differ by a token;
//   - a time to live counts in whole seconds, and none at all ends at once: there is
//     always one;
//   - requests_per_time_unit and an assignment without a strategy are not understood:
//     token buckets and blanket rules are sent;
//   - a bucket that is replaced is full again: what that costs is counted, see share;
//   - the domain is in every report: it may be, and later ones may lack it. The check
//     that is generated from the schema asks for it in all, so it is not used.
//
// # Deviations
//
//   - A bucket without a limit is abandoned once. If it is used all the same it is
//     let through, because a filter without the bucket reports every request of it.
//   - A bucket that is not valid, or one too many, is not answered and counted in
//     metrics: the proxy does with it what it does without an assignment. To end the
//     stream would end all others.
//   - Limits that count what is in flight let everything pass (soft) or nothing (hard):
//     the protocol releases nothing. Costs other than 1 cannot be said.
//   - decide: leader is asked by the node for all its proxies, twenty times a second.
//
// # Bounds
//
// 4096 streams of a node, 1000 buckets of a stream, 100,000 of all; 4096 buckets and
// the server's 4 MiB in a message; 32 keys in a bucket id with 512 bytes in each key
// and value; 200 messages in a second and 2000 at once, then the stream is read more
// slowly. What waits to be sent is one assignment for each bucket, the newest. A
// stream whose proxy has not read it for 2s is ended.
package rlqs
