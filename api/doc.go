// Package api implements the services of the contract quorate.v1 on top of any [Node]. Packages
// rest and grpcapi serve them over HTTP/JSON and gRPC.
//
// # One contract, two wires
//
// The protos under api/proto are the only definition. HTTP/JSON uses the protos' field names
// unchanged (snake_case), with three rules for the sake of curl and jq: numbers are JSON numbers,
// enums are lower-case words without their prefix ("held", "soft"), and durations are seconds.
// Package apijson writes every answer from the proto's descriptor, so it cannot forget a new field.
// The one hand-written encoder, for POST /v1/allow, is compared with it by a test.
//
// Decoding is strict. It refuses unknown, repeated and misspelt fields, wrong types, trailing data
// and broken UTF-8, and the error names the field, the value and what would be right. 64-bit
// numbers may be strings, as protobuf libraries write them.
//
// Some calls exist on one wire only, or have paths of their own: AllowStream, MemberService, by
// which client processes attach to a node, and the protocols of others (packages envoy, rlqs,
// gubernator, resp, quotaservice).
//
// # Errors
//
// Every failed call becomes one *apierr.Error, which maps to a gRPC status with details
// (BadRequest, ErrorInfo, RetryInfo) and to RFC 9457 problem+json:
//
//	error                      gRPC               HTTP
//	wrong field, bad JSON      INVALID_ARGUMENT   400
//	limit file faults          INVALID_ARGUMENT   400, text of all faults
//	no such limit              NOT_FOUND          404, what the namespace has
//	no such version, handle    NOT_FOUND          404
//	expected another version   ABORTED            409, names both
//	body too large             RESOURCE_EXHAUSTED 413
//	too many reservations      RESOURCE_EXHAUSTED 503 + Retry-After
//	the node cannot do it      UNIMPLEMENTED      501
//	no leader                  UNAVAILABLE        503 + Retry-After
//	no permission              PERMISSION_DENIED  403, names permission, scope or realm, identity
//	bad or no credential       UNAUTHENTICATED    401
//	quorate/api refuses        RESOURCE_EXHAUSTED 429 + Retry-After
//	no such policies           NOT_FOUND          404
//	join token is not valid    PERMISSION_DENIED  403
//	name or member exists      ALREADY_EXISTS     409
//	no such node, join token   NOT_FOUND          404
//	not in the current state   FAILED_PRECONDITION 409, says what to do first
//	request id used before     ALREADY_EXISTS     422
//	accounts held by others    ABORTED            503 + Retry-After
//	accounts: store is full    RESOURCE_EXHAUSTED 503
//	accounts: overloaded       RESOURCE_EXHAUSTED 503 + Retry-After
//
// A refusal by a limit is not an error: it is OK over gRPC, and 429 over HTTP with the same body as
// an admission. A request that has to wait is admitted with status 200, and the body says how long.
// A question (cost 0) gets the status that a request of one token would get, and charges nothing.
//
// Failed operations on accounts are not errors either: they are OK over gRPC, and 409 over HTTP
// with the same body and applied false, so that "curl -f" fails as a script expects. A request id
// that was used for other operations is an error, 422.
//
// # What a node can do
//
// [Node] defines it, in parts: each service sees the part that it needs. Package planner answers
// questions about the past.
//
// # HTTP rules
//
// A check may name an HTTP method and path instead of a limit. It charges all limits of the
// namespace whose match fits, all or nothing. The answer is the most important decision: the
// longest refusal, else the longest wait, else the least that remains.
//
// # Events
//
// A stream of events is a copy of the node's events. A reader that is too slow loses some, and
// every message says how many were lost so far. After 15 s without an event, the stream sends a
// message without one.
//
// # Who made a change
//
// The author is the field author, else the metadata or header quorate-user, else x-forwarded-user.
// Nothing proves this name. With a guard ([Options].Guard, package auth) the author is the identity
// of the caller's credential, and the other names are ignored.
//
// # Permission to call
//
// [Gate] asks the guard about every call of both transports: when the call arrives, by the table of
// permissions in package auth, and again when its request is known, by the request's subject. A
// gRPC call that lacks a required credential ends before its message is read. Changes and denied
// calls go to the audit log (audit.go). docs/explanation/security.md describes all of this.
//
// Accounts use the same identity, or "anonymous:anonymous" if the caller names no identity: request ids
// are remembered per identity, histories record it, and AccountAdminService looks up its
// permissions (package access).
//
// # Cost
//
// The parts of a limit that calls need (its counters, JSON form, proto form and header) are built
// once per limit and found by the limit's pointer. A call therefore needs one map lookup and one
// atomic addition in addition to Node.Check.
//
// # Bounds
//
// The body of one check is at most 16 KiB, every other body 4 MiB. A batch has at most 1000 checks,
// a call that is decided all or nothing 16 checks, a list of overrides, keys, versions, accounts or
// operations 1000 items, and a policy config 10,000 policies. Headers are at most 16 KiB and must
// arrive within 5 s. A gRPC connection has at most 1024 open calls. A call without a credential,
// and over gRPC a call that needs no permission, may send at most 32 KiB (grpcapi/anonymous.go).
// The memory for request bodies is bounded per caller and in total (rest/bodies.go).
package api
