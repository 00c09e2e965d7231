// Package limitproto writes limits and overrides as messages and reads them back:
// for the log of the meta group, and for the client processes of a node.
//
// What is decoded may be of a later version, or of nobody who is trusted: a choice
// that this version does not know becomes one that is found invalid, never another
// choice. DecodeLimits and ParseOverride return only what is valid; the others leave
// that to their callers.
//
// # Bounds
//
// quota.MaxLimits limits in a set; those of quota.Limit.Validate and
// quota.Override.Validate on what is in them.
package limitproto
