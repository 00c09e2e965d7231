// Package grpclimit puts a limit before the calls that a gRPC server serves, or
// that a client makes.
//
//	grpc.NewServer(grpclimit.Server(c, grpclimit.Limit("shop", "per_caller"))...)
//	grpc.NewClient(addr, append(dial, grpclimit.Client(c, grpclimit.Limit("out", "to_shop"), grpclimit.Wait(time.Second))...)...)
//
// # What is asked
//
// Calls are matched by their full method, /package.Service/Method: [Method] gives
// a method a limit, [Limit] is for all others. With [Rules] the match rules of the
// limit file decide, for HTTP method POST and the full method as path, which is
// how a call looks on the wire. One of the three is needed; calls that none is
// for pass.
//
// A call is asked about once, when it arrives. With [PerMessage] it is each
// message that the caller sends, and opening a stream is free. The key is the
// caller's address on servers, and the target on clients, unless [Key] says
// otherwise.
//
// Under a limit of what is in flight (in_flight in limit files) a call to a server takes as
// many places as it costs, and gives them back when its handler has returned; they are renewed
// meanwhile. That needs [Limit] or [Method], and a limiter that is a client.Acquirer: by
// [Rules], with [PerMessage] and on clients, such limits let nothing pass, and [OnError] is
// told why.
//
// # Refusals
//
// They are RESOURCE_EXHAUSTED with the details RetryInfo, unless no waiting
// helps, and QuotaFailure. On servers the trailer tells ratelimit,
// ratelimit-policy and retry-after as in HTTP, and grpc-retry-pushback-ms, so that
// clients whose retry policy has RESOURCE_EXHAUSTED come back when it makes sense,
// or not at all. Admitted calls have ratelimit and ratelimit-policy in their
// header. A call without a key, or with a bad cost, is INVALID_ARGUMENT if it is to
// be refused ([MissingKey]).
//
// Where the limiter has no answer the call passes, or with [FailClosed] or
// client.WithFailClosed is UNAVAILABLE. Nothing that a caller can send makes the limiter fail; a call whose
// deadline passes meanwhile, which the caller sets, ends with DEADLINE_EXCEEDED
// and does not get through.
//
// # Mistakes
//
// Options that make no sense, such as no limit to ask for, panic: they are the
// program's own, and show at its start.
//
// # Concurrency
//
// Interceptors are safe for concurrent use, as limiters are.
package grpclimit
