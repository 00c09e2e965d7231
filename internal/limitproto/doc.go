// Package limitproto encodes limits and overrides as messages and decodes them: for the log of the
// meta group, and for the client processes of a node.
//
// Messages may come from a later version or an untrusted process. An enum value that this version
// does not know decodes to an invalid value, never to another choice. DecodeLimits and
// ParseOverride return only valid results; the other functions leave validation to their callers.
//
// # Bounds
//
// quota.MaxLimits limits in a set; those of quota.Limit.Validate and quota.Override.Validate on
// what is in them.
package limitproto
