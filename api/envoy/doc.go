// Package envoy serves envoy.service.ratelimit.v3.RateLimitService, the protocol of Envoy's global
// rate limit filters ("RLS v3"), and its JSON form. Users of envoyproxy/ratelimit only need to
// change an address to use Quorate. docs/reference/compat/envoy-rls.md lists every field and behaviour, with
// its test.
//
//	descriptors --target.go--> key of a limit --node--> quota.Decision --status.go--> DescriptorStatus
//
// # Which limit
//
// A domain is a namespace; characters that a name cannot contain become "-". Package
// internal/descriptor finds the limit, in one of two trees.
//
//   - Rules of an envoyproxy/ratelimit file, used unchanged (rules.go), if they have the domain. The
//     numbers of each rule make a limit ([quota.Inline]), the same on all nodes, counted by all keys
//     and values of the descriptor. Such a domain needs no limit file, and ignores it: a domain has
//     one source.
//   - Else the limits of the limit file, by their names or because the descriptor names them:
//     descriptor.Index, whose rule package rlqs uses too.
//
// A descriptor without a limit is OK, without current_limit: a namespace's default and template and
// the global default apply to names, and a descriptor is not a name.
//
// # What is charged
//
// Every descriptor is decided on its own, as in envoyproxy/ratelimit: when one is over its limit,
// the others are still charged, and a repeated descriptor is charged twice. Quorate's own calls are
// all or nothing; here that would give a proxy other counts than before.
//
// A descriptor adds its own hits_addend, else the request's, else 1. Its own may be 0, which asks
// whether one more would pass and charges nothing. It may also report use after the fact
// (apply_on_stream_done). Therefore, if its own hits_addend is more than one and does not fit, it
// is still booked, down to a burst below zero. A request's hits_addend that does not fit charges
// nothing. is_negative_hits gives tokens back.
//
// Giving back, and booking what does not fit, change a count after the fact, so both need the
// permission report beside check: without it, a request that gives back is denied, and what does not
// fit is refused without being booked.
//
// # Differences from envoyproxy/ratelimit, and why
//
//   - envoyproxy/ratelimit counts every refused hit. Quorate counts only a descriptor's own hits: a
//     flood of refused requests would keep a bucket empty forever.
//   - A question with 0 is OVER_LIMIT when nothing is left. There it is OK until something was
//     refused.
//   - limit_remaining of a refusal is the rest, which may be too little for the hits. There it is 0.
//   - is_negative_hits gives tokens back. There it is ignored.
//   - Keys and values are compared separately. There they are joined by "_".
//   - An empty domain, an empty descriptor list and an unknown unit return INVALID_ARGUMENT.
//     There they return UNKNOWN or end the process.
//   - Limits that requests carry are off unless the settings enable them. They may have a
//     unit_multiplier, and add no metrics. Each number and period counts separately; there all
//     limits of one descriptor, including its rule, share a counter while their windows begin at
//     the same moment.
//   - Values that would make a key too long are hashed.
//   - Changing the numbers of a rule that is used unchanged begins a new count, because it makes
//     another limit. Limits of a limit file keep their counts.
//   - Not supported: dynamic_metadata (and metadata in files), global shadow and quota modes, xDS as
//     a source of rules, the debug port.
//
// # Bounds
//
// A limit of a descriptor or of a file for which the node has no room is not counted, and the answer is
// never OK: it is an error, after which the proxy follows its own failure mode, or OVER_LIMIT if another
// descriptor is over. Only a rule with shadow_mode is OK then too. Callers share the room for the limits
// of their requests (Options.Owner).
//
// A request has at most [MaxDescriptors] descriptors of at most descriptor.MaxEntries entries, with
// [MaxBytes] in all keys and values. A body of the JSON form has at most [MaxBody]. The RateLimit
// fields describe at most 16 limits. Metrics have one label per rule, and at most 1000 more with
// values.
package envoy
