// Package cluster runs a node: it connects the pure cores (leader, aggregator,
// shard) to Raft (cluster/raftgroup) and to the links between nodes
// (cluster/transport).
//
//	             Check                      reports, grants
//	callers ──> dataplane ──> member loop ──────────────────> transport ──> peers
//	                               ^   └─ own ranges ─┐
//	                               └──── grants ──── replica (one ledger per range led here)
//	                                                  │ checkpoints
//	                    limits <── meta group         └──> range groups (raftgroup)
//
// # Goroutines and ownership
//
//   - Checks run on the callers' goroutines. Only the member loop (package dataplane) drives the
//     aggregator; other goroutines put work into its bounded inbox.
//   - The replicas of ranges (package replica) have goroutines that book reports
//     and write checkpoints.
//   - The beacon loop sends beacons and never blocks on anything else.
//   - The goroutine that reads a peer's connection also handles its frames, so a handler never
//     blocks. Calls from peers run on goroutines of their own.
//
// # Leaders
//
// A node serves a range only after it has applied the first entry of the term (the barrier).
// The ledger starts from the levels in the range's log. Every report and grant carries the
// term, and members ignore lower terms. Nodes learn leaders from their own replicas and from
// beacons. Every node sends a beacon on each change and once a second.
//
// # Membership
//
// The meta group stores the members, the desired placement of each group (voters, the
// preferred leader first, and removed nodes that have still to leave), join tokens, the
// authority that signs certificates, and the feature level (package membership). Each change
// names the revision on which it is based, and is refused unless that is the newest.
//
// Package membership contains the table, the reconciler that applies the table to this node, and
// the rebalancer, which works on the leader of the meta group. The rebalancer creates the first
// membership once all nodes of the settings are connected, and raises the feature level. It gives
// up nodes that have been silent for Config.DeadAfter, if the remaining nodes are a majority and
// enough for all replicas. It plans (package shard) and removes leaving members that hold nothing.
// Then it carries out one step for each group that differs from its placement: add a non-voter,
// promote it once it has caught up, transfer the leadership, demote, remove, forget. The desired
// state is in the meta group and the actual state in each group's Raft configuration, so
// a crash of the rebalancer loses nothing. Every member has a replica of the meta group.
//
// A node joins with a token. It becomes a member at once, gets an address book, and receives
// its ranges gradually. A leaving node is notified once it holds nothing (Node.Out).
// Nodes renew certificates after two thirds of their lifetime, through the meta leader. A
// rotation of the authority proceeds only when all living members trust the next authority.
//
// # Feature levels
//
// A node states its level in the handshake. Nodes propose log entries of a new level only once the
// cluster has that level: an earlier version skips entries that it does not know, and its state
// would differ permanently. The meta leader raises the cluster's level when every living member has a
// higher one; from then on the handshake refuses nodes with a lower level.
// docs/reference/formats.md says how a release introduces a level.
//
// # Lost data
//
// The identity of a node's data is the incarnation of the first process that used them. The
// membership records it for each member. The handshake refuses a node that comes back with another
// identity, because that node has forgotten its votes. A node of the settings that has no data
// creates groups only when all the others are connected, or when a majority has been for a second,
// and never once a member says that it was there before. The first start of a cluster is
// therefore delayed by a second only if a node is missing. Not detected are data lost
// before the cluster had a membership, an older copy of the data, and a majority
// that comes back without data while no node that knows of it is up.
//
// # Limits, overrides, policies and access
//
// Package control contains the meta group's state machine, and the calls that change and read it.
//
// # Accounts
//
// The log and snapshot of a range contain the levels of limits and the durable accounts
// (package accounts); each entry concerns one or the other. A snapshot of both is
// streamed, without copying an account. A range has at most two account entries in flight. Before
// a read the leader confirms its leadership (raftgroup.Group.ConfirmLeadership). If a transaction
// with another home holds units there, the leader asks that home first.
//
// # Clients
//
// Client processes attach to a node (package clients). The goroutines that read their streams
// book their counts in the client ledger (package clientledger) and settle them into this node's
// aggregator. A separate goroutine sends what answers no report: limits and overrides.
// When a stream breaks, the node to which the client attaches next settles the broken attachment:
// locally if the attachment was to this node, over the peer link if its node lives, and otherwise
// by inheriting it, which books here what the dead node had not acknowledged. Each node journals
// the reports that it has booked (clients/journal.go). When a dead node comes back, counts that
// were booked there and inherited here are given back once. A node that stops first sends its
// clients away.
//
// # Bounds
//
// 20,000 attached clients, and as many broken attachments.
// 256 members and 1000 join tokens. 4 groups move at a time, and a step takes at most ten
// seconds. A change of the cluster is tried for ten seconds.
package cluster
