// Package cluster makes a node: it joins the pure cores (leader, aggregator,
// shard) with Raft (cluster/multiraft) and the links between nodes
// (cluster/wire).
//
//	             Check                      reports, grants
//	callers ──> aggregator ──> memberLoop ──────────────────> wire ──> peers
//	                               ^   └─ own ranges ─┐
//	                               └──── grants ──── seats (one ledger per range led here)
//	                                                  │ checkpoints
//	                    limits <── meta group         └──> range groups (multiraft)
//
// # Goroutines and who owns what
//
//   - The member loop is the only one that drives the aggregator (Collect,
//     Apply, SetLeader, SetLimits, Sweep); everybody else puts work into its
//     bounded inbox. Check runs on the callers' goroutines.
//   - A seat is a range led here: a ledger under a mutex of its own. Reports are
//     booked on the goroutine that read them; that is about a microsecond a key.
//   - The keeper checkpoints and sweeps the seats.
//   - The herald sends beacons, and waits for nothing else.
//
// # Who leads
//
// A range is served only after the first entry of the term (the fence) has been
// applied here; the ledger starts from the levels in the range's log. Every
// report and grant carries the term; a member ignores lower ones. Nodes learn
// leaders from their own replicas and from beacons, which every node sends on
// each change and once a second.
//
// # Limits and overrides
//
// The meta group holds every version of the limits whole, and the overrides. A
// change of limits says which version it expects; it carries a random id, so
// that a proposal whose answer was lost can be made again. The error for a stale
// version passes between nodes as what it is. Overrides lie in a table that is
// never changed but replaced, in chunks of up to 64: readers take no lock, a
// snapshot copies nothing, and one costs about its own bytes. The meta leader
// proposes once a second to delete those that have expired; all replicas compare
// with the time in that entry.
//
// # Policies
//
// The meta group also holds the policy configs of durable quotas. One is never
// changed, so whoever has a copy has the right one: a table that is replaced on
// every load and purge is read without a lock. A node that misses something asks
// the meta leader how far it is, and waits until it is as far itself, before it
// says that there is none: a config that was loaded through one node works on all
// others with the next call. All who miss something share one such question at a
// time, which leaves nothing in the log. A purge waits until all connected nodes have
// applied it, as their beacons tell, and at most two seconds.
//
// # Accounts
//
// A range's log and snapshot hold the levels of limits and the durable accounts
// (package accounts); an entry is about the one or the other. A snapshot of both is
// taken without copying an account, and streamed; one of before there were accounts is
// read too. Two entries of accounts are under way in a range at a time. A leader is
// asked to confirm itself before it is read (multiraft.Group.Confirm); of what is
// held there for a transaction of another home, that home is asked first.
//
// # Bounds
//
// The history keeps the newest 1000 versions and at most 64 MiB of encoded
// limits, the oldest go first, the newest stays whatever its size. Overrides:
// quota.MaxOverrides in all, 10,000 in a call, 1000 in an entry of the log.
// Policies: 10,000 configs of at most account.MaxPolicies policies and 4 MiB, 64 MiB
// in all, as policyConfig.size counts them.
// Inbox: 4096 messages; a grant that finds it full is dropped, and the member
// asks again. A checkpoint holds at most 4096 levels. Checks that wait for a
// grant (at most Config.GrantWait): 1024; more do not wait.
package cluster
