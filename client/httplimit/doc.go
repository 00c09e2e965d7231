// Package httplimit puts a limit before an http.Handler, or before the requests
// that an http.Client sends.
//
//	http.ListenAndServe(addr, httplimit.New(c, httplimit.Limit("web", "per_client"))(mux))
//
// # Server
//
// [New] asks a limiter about every request before the handler sees it: either one
// limit ([Limit]), or all limits of a namespace that match the method and the
// path ([Rules]). The key is the address of the connection unless [Key] says
// otherwise; behind a proxy that would be the proxy: see [extract.RemoteIP].
//
// What passes gets the fields RateLimit and RateLimit-Policy of
// draft-ietf-httpapi-ratelimit-headers-11 and goes on as it came: the body is not
// touched, the ResponseWriter not wrapped. What is refused is answered with 429,
// Retry-After, the same fields, and a problem (RFC 9457) of the type
// quota-exceeded. A request without a key, or with a bad cost, is answered with
// 400 if it is to be refused ([MissingKey]).
//
// Where the limiter has no answer the request passes, or with [FailClosed] or
// client.WithFailClosed is answered with 503. Nothing that a caller can send makes the limiter fail, and a
// request whose context has ended never reaches the handler.
//
// Under a limit of what is in flight (in_flight in limit files) a request takes as many places
// as it costs, before the handler runs, and gives them back when it has returned; they are
// renewed meanwhile. That needs [Limit] and a limiter that is a client.Acquirer: by [Rules], and
// in a client, such limits let nothing pass, and [OnError] is told why.
//
// # Client
//
// [NewTransport] is an http.RoundTripper that asks before it sends. It waits
// ([Wait]) or returns a [*RefusedError]. With [Honour] it also stays away from a
// host as long as its answers ask for.
//
// # Mistakes
//
// New and NewTransport panic on options that make no sense, such as no limit to
// ask for: they are the program's own, and show at its start.
//
// # Concurrency
//
// Handlers and transports are safe for concurrent use, as limiters are.
package httplimit
