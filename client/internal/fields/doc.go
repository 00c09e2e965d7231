// Package fields writes and reads results in header fields and metadata: RateLimit and
// RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers-11, which are lists of structured fields
// (RFC 9651), and Retry-After (RFC 9110).
//
// All times are whole seconds, rounded up, so that waiting that long is sufficient. t is when there
// will be more than r: for a window its end, for a bucket its next token; for a refusal, when the
// same request could pass, as in Retry-After.
//
// Only names can contain something other than numbers. They come from the limit file, and are
// encoded so that any bytes make a valid field.
package fields
