// Package httplimit limits the requests to an http.Handler, or those that an http.Client sends.
//
//	http.ListenAndServe(addr, httplimit.New(c, httplimit.Limit("web", "per_client"))(mux))
//
// # Server
//
// [New] checks every request before the handler gets it: one limit ([Limit]), or all limits of a
// namespace that match the method and the path ([Rules]). The key is the address of the connection
// unless [Key] is given; behind a proxy that is the proxy's: see [extract.RemoteIP].
//
// Admitted requests get the fields RateLimit and RateLimit-Policy of
// draft-ietf-httpapi-ratelimit-headers-11 and are otherwise unchanged: the body is not read, the
// ResponseWriter not wrapped. Refused requests are answered with 429, Retry-After, the same fields,
// and a problem (RFC 9457) of type quota-exceeded. A request without a key, or with an invalid
// cost, is answered with 400 if the options refuse it ([MissingKey]).
//
// Without an answer of the limiter the request passes, or is answered with 503 with [FailClosed] or
// client.WithFailClosed. Nothing that a caller can send makes the limiter fail, and a request whose
// context has ended never reaches the handler.
//
// Under a concurrency limit (in_flight in limit files) a request takes as many places as
// it costs before the handler runs, and gives them back when it has returned; they are renewed in
// the meantime. This requires [Limit] and a limiter that is a client.Acquirer: with [Rules], and in
// a client, such limits admit nothing, and [OnError] gets the reason.
//
// # Client
//
// [NewTransport] returns an http.RoundTripper that checks before it sends. It waits ([Wait]) or
// returns a [*RefusedError]. With [Honour] it also avoids a host for as long as its responses ask
// for.
//
// # Mistakes
//
// New and NewTransport panic on invalid options, such as no limit: they are mistakes in the program
// and show at its start.
//
// # Concurrency
//
// Handlers and transports are safe for concurrent use, like limiters.
package httplimit
