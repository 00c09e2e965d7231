// Package control keeps the state that the whole cluster agrees on: limits with their versions,
// overrides, policy configs, access, and the membership table (package membership). [Machine] is
// the replicated state of the meta group; [Store] changes and reads it through any node.
//
// # Limits and overrides
//
// The history keeps every version of the limits in full. A change names the version that it expects
// and carries a random ID, so that a proposal can be repeated if its answer was lost. The error for
// a stale version keeps its type between nodes. Overrides are in an immutable table, made of chunks
// of up to 64, that each change replaces: readers take no lock, a snapshot copies nothing, and a
// write costs about as many bytes as the override itself. The meta leader deletes expired
// overrides; all replicas compare with the time in that log entry, not with their clocks.
//
// # Lost answers
//
// If the answer to a change of overrides, policies or access was lost, the node adds an entry that
// changes nothing to the log. Its result says whether the change was made; the node repeats it only
// if it was not. That entry has a higher fence than the first try, and entries with a lower fence
// than an earlier one have no effect. So a slow first try cannot undo what others changed after the
// repetition. A try of another change that this fence excludes is repeated with the new fence.
//
// # Policies
//
// A policy config never changes, so every copy of it is valid: each load and purge replaces the
// table, and readers take no lock. A node that misses a config asks the meta leader for its
// progress and catches up to it before it reports the config as unknown. So a config loaded through
// one node works on all others with the next call. All callers that miss something share one such
// question at a time, which adds nothing to the log. A purge waits until the beacons of all
// connected nodes say that they have applied it, for at most two seconds.
//
// # Bounds
//
//   - History: the newest 1000 versions and at most 64 MiB of encoded limits. The oldest versions are
//     dropped first; the newest stays whatever its size.
//   - Overrides: quota.MaxOverrides in total, 10,000 in a call, 1000 in a log entry.
//   - Policies: 10,000 configs of at most account.MaxPolicies policies and 4 MiB each, 64 MiB in total.
package control
