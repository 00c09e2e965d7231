// Package grpclimit limits the calls that a gRPC server serves, or that a client makes.
//
//	grpc.NewServer(grpclimit.Server(c, grpclimit.Limit("shop", "per_caller"))...)
//	grpc.NewClient(addr, append(dial, grpclimit.Client(c, grpclimit.Limit("out", "to_shop"), grpclimit.Wait(time.Second))...)...)
//
// # What is checked
//
// Calls are matched by their full method, /package.Service/Method: [Method] sets the limit of one
// method, [Limit] that of all others. With [Rules] the match rules of the limit file decide, for
// HTTP method POST and the full method as path, as the call looks on the wire. One of the three is
// required; calls without a limit pass.
//
// A call is checked once, when it arrives. With [PerMessage] each message from the caller is
// checked, and opening a stream is free. The key is the caller's address on servers, and the target
// on clients, unless [Key] is given.
//
// Under a concurrency limit (in_flight in limit files) a call to a server takes as many
// places as it costs, and gives them back when its handler has returned; they are renewed in the
// meantime. This requires [Limit] or [Method], and a limiter that is a client.Acquirer: with
// [Rules], with [PerMessage] and on clients, such limits admit nothing, and [OnError] gets the
// reason.
//
// # Refusals
//
// They are RESOURCE_EXHAUSTED with the details QuotaFailure and, unless waiting does not help,
// RetryInfo. On servers the trailer has ratelimit, ratelimit-policy and retry-after as in HTTP, and
// grpc-retry-pushback-ms, so that clients whose retry policy includes RESOURCE_EXHAUSTED retry at
// the right time, or not at all. Admitted calls have ratelimit and ratelimit-policy in their
// header. A call without a key, or with an invalid cost, is INVALID_ARGUMENT if the options refuse it
// ([MissingKey]).
//
// Without an answer of the limiter the call passes, or is UNAVAILABLE with [FailClosed] or
// client.WithFailClosed. Nothing that a caller can send makes the limiter fail. A call whose
// deadline, which the caller sets, passes in the meantime ends with DEADLINE_EXCEEDED and does not
// get through.
//
// # Mistakes
//
// Invalid options, such as no limit, panic: they are mistakes in the program and show at its start.
//
// # Concurrency
//
// Interceptors are safe for concurrent use, like limiters.
package grpclimit
