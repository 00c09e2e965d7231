// Package api is the contract, quorate.v1, and its services, on top of anything that
// satisfies [Node]. Packages rest and grpcapi serve them, over HTTP/JSON and over gRPC.
//
// # One contract, two wires
//
// The protos under api/proto are the only definition. HTTP/JSON uses the
// protos' field names as they stand (snake_case), with three rules that make it
// pleasant for curl and jq: numbers are JSON numbers, enums are lower-case words
// without their prefix ("held", "soft"), and durations are seconds. Package apijson
// writes every answer by walking the proto's descriptor, so a new field cannot
// be forgotten; the one hand-written encoder, for POST /v1/allow, is held equal
// to it by a test.
//
// What comes in is decoded strictly: unknown, repeated or misspelt fields,
// wrong types, trailing data and broken UTF-8 are refused, and the error names
// the field, the value and what would be right. 64-bit numbers may be strings, as
// protobuf libraries write them.
//
// AllowStream, MemberService, by which client processes attach to a node, and the protocols of
// others (packages envoy, rlqs, gubernator, resp, quotaservice) are on one
// wire only, or have paths of their own.
//
// # Errors
//
// Every refused call becomes one *apierr.Error, which maps to a gRPC status with
// details (BadRequest, ErrorInfo, RetryInfo) and to RFC 9457 problem+json:
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
//	join token opens nothing   PERMISSION_DENIED  403
//	name or member is there    ALREADY_EXISTS     409
//	no such node, join token   NOT_FOUND          404
//	not in the present state   FAILED_PRECONDITION 409, says what to do first
//	request id used before     ALREADY_EXISTS     422
//	accounts held by others    ABORTED            503 + Retry-After
//	accounts: store is full    RESOURCE_EXHAUSTED 503
//	accounts: overloaded       RESOURCE_EXHAUSTED 503 + Retry-After
//
// A refusal by a limit is not an error: OK over gRPC, 429 with the same body as
// an admission over HTTP. A request that is to wait is admitted: 200, and the
// body says how long. A question (cost 0) has the status that a request of one
// token would have got, and charges nothing.
//
// Nor are operations on accounts that failed: OK over gRPC, and 409 with the same
// body over HTTP, applied false, so that "curl -f" fails as a script expects. A
// request id that was used for other operations is a problem, and 422.
//
// # What a node can do
//
// [Node] says it, in parts: each service sees the part that it needs. Package planner answers
// what is asked about the past.
//
// # HTTP rules
//
// A check may name an HTTP method and path instead of a limit. All limits of the
// namespace whose match fits are charged, all or nothing; the answer is that of
// the one that matters most: the longest refusal, else the longest wait, else
// the least that remains.
//
// # Events
//
// A stream of events is a copy of what the node tells: a reader that is too slow
// loses some, and every message says how many were lost so far. A message
// without an event comes every 15 s in which there is none.
//
// # Who made a change
//
// The field author, else the metadata or header quorate-user, else
// x-forwarded-user. It is what the caller says, and is proven by nothing. With a
// guard ([Options].Guard, package auth) it is who the caller's credential names, and
// whatever else the caller says does not count.
//
// # Who may call
//
// [Gate] asks the guard for every call of both transports: once when the call comes, by
// the table of permissions in package auth, and once more when its request is known,
// by what it is about. A gRPC call without a credential, where one is needed, ends
// before its message is read. What changes something, and what is denied, goes to
// the audit log (audit.go). docs/security.md is the whole of it.
//
// For accounts the same is the caller's identity, "anonymous:anonymous" if nobody
// is named: request ids are remembered per identity, histories name it, and
// AccountAdminService looks up its permissions (package access). Another
// [access.Identifier] may be given in [Options].
//
// # Cost
//
// What a call needs of a limit (its counters, its JSON and proto form, its
// header) is made once per limit and found again by the limit's pointer, so a
// call does one map lookup and one atomic addition beyond Node.Check.
//
// # Bounds
//
// Bodies of one check are at most 16 KiB, all others 4 MiB; a batch has at most
// 1000 checks, a call that stands or falls together 16 limits, a list of
// overrides, keys, versions, accounts or operations 1000 items, a policy config
// 10,000 policies; headers are at most 16 KiB and must arrive
// within 5 s; a gRPC connection has at most 1024 open calls. A call without a credential,
// and over gRPC one that needs no permission, may send at most 32 KiB (grpcapi/strangers.go). The request bodies in memory are bounded per
// caller and in total (rest/bodies.go).
package api
