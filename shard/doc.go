// Package shard says which range a key belongs to, which nodes hold a range, and
// how a group gets from the nodes that it has to those that are wanted.
//
// It is pure. The 64-bit hash space is cut into equal contiguous ranges, a
// number fixed when the cluster is made; each range is one Raft group. Hash
// and Plan may never change for an existing cluster: a golden test pins both.
//
// # Placement
//
// Place says what is wanted of each range; it is data, kept in the meta group.
// The same nodes, states and placements give the same answer, in whatever order
// the nodes come, and a placement that was reached stays as it is.
//
//   - How many voters: as many as asked for, or the largest odd number that
//     nodes are left for. An even number tolerates no more deaths than the odd
//     one below it. There is one exception: where more than one voted and two
//     nodes are left, both vote. One voter would lose the range with its node;
//     two only stop when one is down, nodes go on deciding from what they hold,
//     and no count is lost. A cluster that grows has one voter until it has
//     three nodes.
//   - Fewer voters only on somebody's wish: when fewer are asked for or nodes
//     leave. A death makes no range smaller: the dead node is replaced if there
//     is somebody to do so, and else keeps its seat, since a voter that may come
//     back is worth more than none. Whoever wants to go on without it says that
//     it leaves.
//   - Zones come first: a range is in as many zones as it can be, and as evenly
//     (the sum of the squares of its voters per zone is the least possible).
//   - Replicas per active node are as even as zones allow: within one where
//     zones are of the same size, always within one in the same zone. What
//     draining nodes keep is not counted.
//   - Preferred leaders are as even as the voters allow, and within one if no
//     node drains; only the order of the voters changes for that. Seconds differ,
//     so that the work of a dead leader falls on many.
//   - A replica moves only for one of these reasons.
//
// Nodes that lose their replica are Removed until they have left the group; they
// keep it open until then, and may delete its data when they are forgotten.
//
// # Steps
//
// Next compares what is wanted with what is, and says one step. Whoever carries
// steps out needs no memory: after a crash it asks again.
//
//   - Nothing at all is done without a live majority and a leader.
//   - A wanted node follows as a non-voter first, one at a time, and votes when it
//     has caught up.
//   - A voter is taken out only while there are more than wanted, so there are
//     never fewer than before or than wanted, and at most one too many.
//   - The dead are taken out first, and only after somebody votes in their place.
//     Others are taken out only if a majority of the rest has caught up.
//   - A leader that is to go hands over first, to a wanted voter that has caught
//     up, the preferred one if it can.
//   - The meta group keeps every node of the cluster as a non-voter: whoever need
//     not vote there is demoted; only its Removed nodes are removed.
//   - Who leads among the wanted voters is not its business.
package shard
