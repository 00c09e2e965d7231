// Package membership is who is in a cluster and who holds what: the table in the meta group, and
// what makes nodes and groups as the table says.
//
// # The table
//
// A [Table] holds members, what is wanted of each group, join tokens, the authority that signs
// certificates, and the feature level. It is pure and never changed: [Table.Apply] returns another
// one. Every change says from which revision it was made, and is refused if that is not the newest:
// whoever decided on what has changed meanwhile decides anew. This is what makes moves resumable,
// and a join token usable exactly as often as it says.
//
// # The service
//
// Every node has a [Service]. It keeps the node's [View]: out of the settings until the meta group
// has a table, then from there, with a copy in the data directory. The reconciler makes the node
// what the view says: it connects, opens groups, and deletes replicas that are with others now.
// Where the meta group is led, the rebalancer plans (package shard) and carries out one step of
// each group that is not as wanted, and the service carries out the calls of operators and of nodes
// that join ([Service.Change]). What it needs of the node is the interface [Node].
//
// # Bounds
//
// [MaxMembers] members, [MaxTokens] join tokens, placements of the meta group and
// of shard.MaxRanges ranges, texts of at most quota.MaxNameLen bytes (addresses:
// [MaxAddress]; ids of joins: [MaxJoinID]; makers of tokens:
// [MaxIdentity]), [MaxTrusts] authorities of a member.
package membership
