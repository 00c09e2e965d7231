// Package extract says whom a request is counted for, and what it costs.
//
// The middleware of client/httplimit and client/grpclimit asks a [Key] for the
// key of each request and a [Cost] for its cost. Both are functions of a
// [Request], which is an HTTP request or a gRPC call, so that one key serves
// both; a function of your own is as good as those here.
//
//	extract.Header("X-Tenant")
//	extract.RemoteIP(extract.Proxies{Hops: 1})
//	extract.Join(extract.Claim(verified, "tenant"), extract.Method())
//	extract.First(extract.CertURI(), extract.Header("X-Service"), extract.RemoteIP(extract.Proxies{}))
//
// # What is trusted
//
// Everything in a request was written by whoever sent it, unless somebody in
// between has replaced it. A key that the caller can choose is no limit: they
// choose another. Header, Metadata, Query, PathValue and UnverifiedClaim are
// such keys unless a proxy or an earlier handler has checked them. RemoteIP
// believes only what your own proxies have written. Claim takes claims that
// somebody has verified, and certificates count only when the handshake has
// verified them.
//
// # Nothing there
//
// A key that is not there is an error that names it, a [*MissingError] for
// errors.Is(err, ErrMissing), and the middleware does what [Missing] says.
//
// # Bounds
//
// A key is 1 to [MaxKey] bytes of UTF-8. What the middleware gets is passed
// through [Bound]: longer ones and other bytes become a hash.
//
// # Concurrency
//
// What is here is made once and then used by any number of requests at once. A
// key allocates nothing beyond the string that it makes, if it makes one: many are
// parts of the request and share its memory, so whoever keeps one for long should
// clone it.
package extract
