// Package envoy serves envoy.service.ratelimit.v3.RateLimitService, the protocol of
// Envoy's global rate limit filters ("RLS v3"), and its JSON form. Whoever runs
// envoyproxy/ratelimit reaches Quorate by a change of address.
// docs/compat/envoy-rls.md has every field and behaviour, with its test.
//
//	descriptors --target.go--> key of a limit --node--> quota.Decision --status.go--> DescriptorStatus
//
// # Which limit
//
// A domain is a namespace; what a name cannot have becomes "-". The limit is found
// by package internal/descriptor, in one of two trees.
//
//   - Rules of an envoyproxy/ratelimit file, served as they are (rules.go), if they
//     have the domain. Each makes a limit of its own numbers ([quota.Inline]), which
//     all nodes make alike, counted by all keys and values of the descriptor. No limit file
//     is needed, and none is asked: a domain has one source.
//   - Else the limits of the limit file, by their names, or because the descriptor names
//     them: descriptor.Index, the rule that package rlqs has too.
//
// What no limit is for is OK, without current_limit: a namespace's default and
// template, and the global default, are for names, and a descriptor is none.
//
// # What is charged
//
// Every descriptor is decided by itself, as envoyproxy/ratelimit does: when one is
// over its limit, the others are charged all the same, and one that is there twice
// is charged twice. Quorate's own calls are all or nothing; here a proxy would get
// other counts than it had.
//
// What a descriptor adds is, in this order, its own hits_addend, that of the
// request, 1. Its own may be 0, which asks whether one more would pass and charges
// nothing, and may be told after the fact (apply_on_stream_done), so that it is of
// what has been used already: where more than one does not fit it is booked all the
// same, down to a burst below zero. A request's own hits_addend that does not fit
// charges nothing. is_negative_hits gives back.
//
// # What is not as in envoyproxy/ratelimit, and why
//
//   - There every refused hit is counted. Here only a descriptor's own hits are: of
//     a bucket, a flood of refused requests would keep it empty for ever.
//   - Asking with 0 is OVER_LIMIT when nothing is left. There it is OK until
//     something was refused.
//   - limit_remaining of a refusal is what is left, which may be too little for the
//     hits, where there it is 0.
//   - is_negative_hits gives back, where there it is not looked at.
//   - Keys and values are compared by themselves, where there they are joined by "_".
//   - An empty domain, an empty descriptor list and an unknown unit return INVALID_ARGUMENT.
//     There they return UNKNOWN or end the process.
//   - Limits that callers bring along are off unless the settings have them on. They
//     may have a unit_multiplier, and mint no metrics. Each number and period counts by
//     itself; there all of one descriptor share a counter, and so does its rule, while
//     their windows begin at the same moment.
//   - Values that would make a key too long are hashed.
//   - Changing the numbers of a rule that is served as it is begins a new count, because the
//     limit is another one. Limits of a limit file keep theirs.
//   - Not served: dynamic_metadata (and metadata in files), global shadow and quota
//     modes, xDS as a source of rules, the debug port.
//
// # Bounds
//
// A request has at most [MaxDescriptors] descriptors of descriptor.MaxEntries
// entries, with [MaxBytes] in all keys and values; a body of the JSON form [MaxBody]. RateLimit
// fields tell of at most 16 limits. Metrics have the rules, and at most 1000 more
// that tell values.
package envoy
