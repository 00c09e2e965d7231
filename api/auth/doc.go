// Package auth says who makes a call of the API, and whether they may.
//
// # Who
//
// A caller is named by what proves it, in this order:
//
//	authorization: Bearer quorate1t.<id>.<secret>   token:<name of the token>
//	authorization: Bearer <JWT>                     user:<sub, or auth.oidc.identity_claim>, and group:<name> for each group
//	client certificate, of this cluster             client:<name>, node:<id>
//	client certificate, of another trust domain     its SPIFFE id, or dns:<its DNS SAN>
//	nothing                                         anonymous:anonymous
//
// The header goes first because it is of the call, and a certificate of the
// connection, which may be a proxy's. What is there is checked: a token that is
// wrong, unknown or expired ends the call, and is never taken for nothing.
//
// Nothing here blocks a call that carries no JWT. The keys of an OIDC issuer are
// fetched when the first JWT comes, kept, and fetched again when one comes whose
// key is not among them, at most [fetchBurst] times at once and then once in
// [fetchEvery], so that strangers cannot make the node hammer the issuer.
//
// # Whether
//
// [Rules] is one table with every method of every service and every HTTP route
// that is none of them: the permission that it needs, and in which scopes. What is
// not in the table is denied. Bindings (package rbac) say who has what: those that
// the cluster keeps, those of the node's settings, and one that is built in:
// client:admin has the role admin.
//
// # Cost
//
// Who a certificate names is remembered for ten seconds, a JWT for five minutes at
// most, each at most [maxRemembered]; a bearer token costs one hash. The decision
// is a look into one or two maps. Whom a JWT named is kept until it expires
// ([Guard.Before]), for callers of Guard who cannot wait for the issuer.
package auth
