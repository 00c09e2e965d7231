// Package cluster makes a node: it joins the pure cores (leader, aggregator,
// shard) with Raft (cluster/raftgroup) and the links between nodes
// (cluster/transport).
//
//	             Check                      reports, grants
//	callers ──> dataplane ──> member loop ──────────────────> transport ──> peers
//	                               ^   └─ own ranges ─┐
//	                               └──── grants ──── replica (one ledger per range led here)
//	                                                  │ checkpoints
//	                    limits <── meta group         └──> range groups (raftgroup)
//
// # Goroutines and who owns what
//
//   - Checks run on the callers' goroutines. The member loop (package dataplane) is the only one
//     that drives the aggregator; everybody else puts work into its bounded inbox.
//   - The replicas of ranges (package replica) have goroutines that book reports
//     and write checkpoints.
//   - The beacon loop sends beacons, and waits for nothing else.
//   - What a frame of a peer is about is handled on the goroutine that reads the connection, which
//     waits for nothing; calls of peers have goroutines of their own.
//
// # Who leads
//
// A range is served only after the first entry of the term (the barrier) has been
// applied here; the ledger starts from the levels in the range's log. Every
// report and grant carries the term; a member ignores lower ones. Nodes learn
// leaders from their own replicas and from beacons, which every node sends on
// each change and once a second.
//
// # Membership
//
// The meta group holds who is a member, what is wanted of each group (voters, the
// preferred leader first, and removed ones that are still to leave), join tokens, the
// authority that signs certificates, and the feature level (package membership). A
// change says from which revision it was made, and is refused if that is not the
// newest.
//
// Package membership has the table, the reconciler that makes a node what the table says, and the
// rebalancer, which works where the meta group is led. It makes the first membership once all
// nodes of the settings are here, raises the feature level, gives up nodes that are
// silent for Config.DeadAfter if those that remain are a majority and enough for all
// replicas, plans (package shard), and takes members out that hold nothing. Then it
// carries out one step of each group that is not as wanted: add a non-voter, promote
// it when it is caught up, transfer the leadership, demote, remove, forget. What is
// wanted is in the meta group and what is in each group's Raft configuration, so
// nothing is lost with it. Every member has a replica of the meta group.
//
// A node joins with a token: it is a member at once, with an address book, and gets
// its ranges by and by. One that leaves is told so when it holds nothing (Node.Out).
// Certificates are renewed after two thirds of their life, through the meta leader; a
// rotation of the authority goes on only when all members that live trust the next.
//
// # Feature levels
//
// A node says its level in the handshake. Entries of the log that a level brought are
// proposed only when the cluster is at it: an earlier version skips what it does not
// know, and would hold another state for ever. The meta leader raises the cluster's level
// when every living member has a higher one; from then on whoever has a lower level is
// refused in the handshake. docs/formats.md says how a release brings a new level.
//
// # Data that are lost
//
// Data have a name: the incarnation of the first process that had them. The membership
// has that of each member, and who comes back with another one is refused in the
// handshake: it has forgotten its votes. A node without data that the settings name
// makes no group before all others are here, or a majority has been for a second, and
// none at all once a member says that it was there before. So the first start of a
// cluster takes no longer, unless a node is missing: then a second. What is not seen: data lost
// before the cluster had a membership, an older copy of the data, and a majority
// that comes back without data while nobody is up who knows.
//
// # Limits, overrides, policies and access
//
// The meta group's state machine, and the calls that change and read it, are in package
// control.
//
// # Accounts
//
// A range's log and snapshot hold the levels of limits and the durable accounts
// (package accounts); an entry is about the one or the other. A snapshot of both is
// taken without copying an account, and streamed. Two entries of accounts are under way in a range at a time. A leader is
// asked to confirm itself before it is read (raftgroup.Group.ConfirmLeadership); of what is
// held there for a transaction of another home, that home is asked first.
//
// # Clients
//
// Client processes attach to a node (package clients): what they count is booked in the
// branch (package branch) on the goroutines that read their streams, and settled into
// this node's aggregator; a goroutine of its own sends what answers no report, the limits
// and the overrides. An attachment whose stream broke is settled here if it was here,
// over the peer link if its node lives, and otherwise inherited: what the dead node had
// not acknowledged is booked here. Which reports a node had booked is in a journal of
// its own (clients/journal.go), so that, when it comes back, what was booked there and
// inherited here is given back once. A node that stops sends its clients away first.
//
// # Bounds
//
// Attached clients: 20,000, and as many attachments that broke.
// Members: 256; join tokens: 1000. Groups that move at a time: 4, a step at most ten
// seconds. A change of the cluster is tried for ten seconds.
package cluster
