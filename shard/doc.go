// Package shard maps keys to ranges and ranges to nodes, and plans how a Raft group gets from its
// current configuration to the wanted one.
//
// It is pure. The 64-bit hash space is divided into equal contiguous ranges; their number is fixed
// when the cluster is created, and each range is one Raft group. Hash and Plan must never change
// for an existing cluster: a golden test pins both.
//
// # Placement
//
// Place returns the wanted placement of each range, which is data in the meta group. The result
// depends on nodes, states and previous placements only, not on the order of the nodes. A placement
// that has been reached stays as it is.
//
//   - Number of voters: as many as configured, or the largest odd number that the remaining nodes allow. An even
//     number tolerates no more failures than the odd one below it. There is one exception: if more than one voted and
//     two nodes remain, both vote. A single voter would lose the range with its node; two voters only stop when one
//     is down, while nodes continue to decide by held tokens, and no count is lost. A growing cluster has one voter
//     until it has three nodes.
//   - The number of voters falls only on request: if fewer are configured or nodes leave. A dead node
//     is replaced if there is a node to replace it. Otherwise it remains a voter, because it may come
//     back. To continue without it, an operator makes it leave.
//   - Zones come first: a range is in as many zones as possible, as evenly as possible (the sum of the
//     squares of its voters per zone is minimal).
//   - Replicas per active node are as even as zones allow: within one if zones have the same size,
//     always within one in the same zone. Replicas on draining nodes do not count.
//   - Preferred leaders are spread as evenly as the voters allow, within one if no node drains, by
//     ordering the voters. The second voters of one leader's ranges differ, so that many nodes share the
//     load of a dead leader.
//   - A replica moves only for one of these reasons.
//
// Nodes that lose their replica are listed as Removed until they have left the group. They keep the
// replica open until then and may delete its data once they are forgotten.
//
// # Steps
//
// Next compares the wanted placement with the actual configuration and returns one step. The caller
// keeps no state: after a crash it asks again.
//
//   - Without a live majority and a leader, nothing is done.
//   - A wanted node first joins as a non-voter, one at a time, and votes when it has caught up.
//   - A voter is removed only while there are more voters than wanted. So there are never fewer than
//     before or than wanted, and at most one too many.
//   - Dead voters are removed first, and only after a replacement votes. Others are removed only if a
//     majority of the rest has caught up.
//   - A leader that has to be removed first transfers leadership to a wanted voter that has caught up,
//     the preferred one if possible.
//   - Every node of the cluster stays in the meta group: a node that need not vote is demoted to a
//     non-voter; only Removed nodes are removed.
//   - Next does not choose the leader among wanted voters.
package shard
