// Package control keeps what the whole cluster agrees on: limits with their versions, overrides,
// policy configs, access, and the membership table (package membership). [Machine] is the replicated
// state of the meta group; [Store] changes and reads it through any node.
//
// # Limits and overrides
//
// Every version of the limits is kept whole. A change says which version it expects, and carries a
// random id, so that a proposal whose answer was lost can be made again. The error for a stale version
// keeps its type between nodes. Overrides are in a table that is replaced, never changed, in chunks of
// up to 64: readers take no lock, a snapshot copies nothing, and a write costs about the override's own
// bytes. The meta leader deletes expired overrides; all replicas compare with the time in that entry,
// not with their clocks.
//
// # Policies
//
// A policy config is never changed, so every copy is right: a table that is replaced on every load and
// purge is read without a lock. A node that misses a config asks the meta leader how far it is, and
// waits until it is as far itself, before it reports the config as unknown: a config that was loaded
// through one node works on all others with the next call. All callers that miss something share one
// such question at a time, which leaves nothing in the log. A purge waits until all connected nodes have
// applied it, as their beacons say, and at most two seconds.
//
// # Bounds
//
// The history keeps the newest 1000 versions and at most 64 MiB of encoded limits; the oldest are
// dropped first, the newest stays whatever its size. Overrides: quota.MaxOverrides in all, 10,000 in a
// call, 1000 in an entry of the log. Policies: 10,000 configs of at most account.MaxPolicies policies
// and 4 MiB, 64 MiB in all.
package control
