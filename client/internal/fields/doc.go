// Package fields writes and reads what a result says in header fields and in
// metadata: RateLimit and RateLimit-Policy of
// draft-ietf-httpapi-ratelimit-headers-11, which are lists of structured fields
// (RFC 9651), and Retry-After (RFC 9110).
//
// All times are whole seconds, rounded up: whoever waits that long does not come
// too early. t is when there will be more than r: of a window its end, of a
// bucket its next token; on a refusal, when the same request could pass, so that
// it says the same as Retry-After.
//
// Names, and only they, can hold what is not a number; they come from the limit
// file and are written so that any bytes make a valid field.
package fields
