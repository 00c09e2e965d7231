// Package multiraft runs many Raft groups on one node over the links of
// package wire. It is the only package that imports hashicorp/raft: everything
// outside sees a [Host], its [Group]s and the caller's [StateMachine]s.
//
// # One node
//
//	        Host ── balancer, kicked elections, parked votes
//	      /  |   \
//	Group  Group  Group ── raft instance, state machine, own files
//	      \  |   /
//	     transport ── control: heartbeats, votes   data: entries
//	         |        own connection: snapshots
//	      wire.Net
//
// A node's id is its Raft id and its Raft address. Heartbeats of the current
// term are answered on the goroutine that reads the connection, since they
// touch no disk; everything else waits in a short queue per group, and is
// refused as busy when that is full, so that one stalled group delays no other.
//
// # From election to service
//
// Winning an election is not leading. A new leader first proposes its fence, an
// entry that names the term, and serves ([GroupOptions.OnLeading]) only when
// that entry is applied under that very term: then it holds everything that
// was committed before. From there on, every answer should carry the term, so
// that whoever has heard of a newer one ignores it. Being leader is no lease:
// a deposed leader may believe in itself for up to Timing.Lease.
//
// # Where leaders are
//
// The first of [GroupOptions.Voters] is the preferred leader. It bootstraps the
// group, alone, and campaigns as soon as a quorum is connected; the others have
// no configuration yet and vote for it. So leaders are where they should be
// from the start, within a fraction of a second. Votes and first entries for a
// group that is not open yet are parked until it is, and replication to a peer
// that is not connected waits for it instead of failing: raft's own backoff
// would leave a follower that returns without entries for up to ten seconds.
//
// When a leader's process is known to be dead ([Host.PeerDead]), its groups do
// not wait for their timers. After the dead leader's lease has certainly run
// out, the survivors' heartbeat timeout is lowered for a second, which fires
// it: one replica after the other, 30 ms apart, in the order of Voters. The
// first forgets the leader and is refused, because the next one still remembers
// it; the next one is elected. Votes and logs follow the ordinary rules, so
// a false alarm moves leaders and harms nothing.
//
// A balancer gives leadership back to preferred leaders that have returned.
// Transfers are guarded, because hashicorp/raft can be wedged by a transfer to
// a replica that does not answer (hashicorp/raft#696): the target must just
// have reported that it is caught up and hears this leader, one transfer per
// group and minute, five minutes of rest after a failure, calls that time out
// within twice the election timeout, and a watchdog that restarts a raft
// instance in which a transfer never ends.
//
// # Limits
//
// Pipelined replication is off (hashicorp/raft#612: one failed append wedges
// the follower). The voters of a group are those it was bootstrapped with.
// Replicas that lose their disk must come back under a new node id: a preferred
// leader with an empty disk would bootstrap a second group.
package multiraft
