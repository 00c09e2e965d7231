// Package auth identifies the callers of the API and authorizes their calls.
//
// # Who
//
// The caller's credential gives its identity, in this order:
//
//	authorization: Bearer quorate1t.<id>.<secret>   token:<name of the token>
//	authorization: Bearer <JWT>                     user:<sub, or auth.oidc.identity_claim>, and group:<name> for each group
//	client certificate, of this cluster             client:<name>, node:<id>
//	client certificate, of another trust domain     its SPIFFE id, or dns:<its DNS SAN>
//	nothing                                         anonymous:anonymous
//
// The header takes precedence because it belongs to the call; a certificate belongs to the
// connection, which may be a proxy's. A credential that is present is always checked: a malformed,
// unknown or expired token ends the call, and is never treated as no credential.
//
// A call without a JWT never blocks here. The keys of an OIDC issuer are fetched with the first JWT
// and cached. They are fetched again for a JWT with an unknown key, at most [fetchBurst] times at
// once and then once per [fetchEvery], so that unauthenticated callers cannot make the node overload the issuer.
//
// # Whether
//
// [Rules] is one table of every method of every service and every other HTTP route: the permission
// that it needs, and in which scopes. A method that is not in the table is denied. Bindings
// (package rbac) grant permissions: the bindings of the cluster, the bindings in the node's
// settings, and one built-in binding: client:admin has the role admin.
//
// # Cost
//
// The identity of a certificate is cached for ten seconds and a JWT for at most five minutes, at
// most [maxRemembered] of each; a bearer token costs one hash. A decision is a lookup in one or two
// maps. The caller of a JWT is kept until the JWT expires ([Guard.Before]), for users of Guard that
// cannot wait for the issuer.
package auth
