// Package membership manages the members of a cluster and the placement of its groups: the table in
// the meta group, and the loops that bring nodes and groups in line with the table.
//
// # The table
//
// A [Table] holds members, the desired placement of each group, join tokens, the authority that
// signs certificates, and the feature level. It is pure and immutable: [Table.Apply] returns a new
// one. Every change names the revision on which it is based, and is refused unless that is the
// newest; the proposer then decides again. This makes moves resumable, and lets a join token be
// used exactly as often as it allows.
//
// # The service
//
// Every node has a [Service]. It keeps the node's [View], which comes from the settings until the
// meta group has a table and then from that table, with a copy in the data directory. The reconciler
// applies the view to the node: it connects to peers, opens groups, and deletes replicas that have
// moved to other nodes. On the leader of the meta group, the rebalancer plans (package shard) and
// carries out one step for each group that differs from its placement, and the service carries out
// calls of operators and of joining nodes ([Service.Change]). The interface [Node] lists what the
// service needs from its node.
//
// # Bounds
//
// [MaxMembers] members, [MaxTokens] join tokens, placements of the meta group and
// of shard.MaxRanges ranges, texts of at most quota.MaxNameLen bytes (addresses:
// [MaxAddress]; ids of joins: [MaxJoinID]; creators of tokens:
// [MaxIdentity]), [MaxTrusts] trusted authorities per member.
package membership
