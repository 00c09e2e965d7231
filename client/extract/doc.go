// Package extract derives the key of a request, under which it is counted, and its cost.
//
// The middleware of client/httplimit and client/grpclimit calls a [Key] for the key of each request
// and a [Cost] for its cost. Both are functions of a [Request], which is an HTTP request or a gRPC
// call, so that one key works for both. You can write your own.
//
//	extract.Header("X-Tenant")
//	extract.RemoteIP(extract.Proxies{Hops: 1})
//	extract.Join(extract.Claim(verified, "tenant"), extract.Method())
//	extract.First(extract.CertURI(), extract.Header("X-Service"), extract.RemoteIP(extract.Proxies{}))
//
// # Trust
//
// Everything in a request was written by its sender, unless a proxy has replaced it. A key that the
// caller can choose does not limit: the caller chooses another one. Header, Metadata, Query,
// PathValue and UnverifiedClaim are such keys unless a proxy or an earlier handler has checked
// them. RemoteIP trusts only what your own proxies wrote. Claim uses verified claims, and
// certificates count only if the handshake verified them.
//
// # Missing keys
//
// If a request has no key, the error names what is missing. It is a [*MissingError], for
// errors.Is(err, ErrMissing), and the middleware acts as [Missing] says.
//
// # Bounds
//
// A key is 1 to [MaxKey] bytes of UTF-8. The middleware applies [Bound]: longer keys and other
// bytes become a hash.
//
// # Concurrency
//
// Keys and costs are created once and are safe for concurrent use. A key allocates at most its
// result. Many results are parts of the request and share its memory, so clone a key before keeping
// it for long.
package extract
