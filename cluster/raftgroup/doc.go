// Package raftgroup runs many Raft groups on one node over the links of
// package transport. It is the only package that imports hashicorp/raft: everything
// outside sees a [Host], its [Group]s and the caller's [StateMachine]s.
//
// # One node
//
//	        Host ── balancer, forced elections, parked votes
//	      /  |   \
//	Group  Group  Group ── raft instance, state machine, own files
//	      \  |   /
//	     transport ── control: heartbeats, votes   data: entries
//	         |        own connection: snapshots
//	      transport.Net
//
// A node's id is its Raft id and its Raft address. Heartbeats of the current
// term are answered on the goroutine that reads the connection, since they
// touch no disk; everything else waits in a short queue per group, and is
// refused as busy when that is full, so that one stalled group delays no other.
//
// # Many groups that do nothing
//
// What an idle node costs is how often it is woken. So the heartbeats of all groups
// to a node leave in one write, and are answered in one: each waits for the
// others, but never longer than raft's own timer might have taken, a fifth of
// the heartbeat timeout after the last answer. Appends without entries, by which
// followers learn the commit index, go with them, and do not wait once there is
// an entry. When a heartbeat is answered, raft is asked at once for the next, which
// waits then where the others do, so that its own timer need not fire. The protocol is what it
// would be without all that: each group's heartbeat is a frame that its follower
// answers.
//
// # From election to service
//
// Winning an election is not leading. A new leader first proposes a barrier, an
// entry that names the term, and serves ([GroupOptions.OnLeading]) only when
// that entry is applied under that very term: then it holds everything that
// was committed before. From there on, every answer should carry the term, so
// that whoever has heard of a newer one ignores it. Being leader is no lease:
// a deposed leader may believe in itself for up to Timing.Lease.
//
// # Where leaders are
//
// The first of [GroupOptions.Voters] is the preferred leader at first; see
// [Group.SetPreferred]. It bootstraps the group, alone, and campaigns as soon as
// a quorum is connected; the others have no configuration yet and vote for it.
// So leaders are where they should be from the start, within a fraction of a
// second. If it is not there for five seconds, the next voter that is founds the group
// with the same entry. Votes and first entries for a group that is not open yet are
// parked until it is, and replication to a peer
// that is not connected waits for it instead of failing: raft's own backoff
// would leave a follower that returns without entries for up to ten seconds.
//
// When a leader's process is known to be dead, or probably is ([Host.PeerDead]), its groups do
// not wait for their timers. After the dead leader's lease has certainly run
// out, the survivors' heartbeat timeout is lowered for a second, which fires
// it: one replica after the other, 30 ms apart, in the order of the voters. The
// first forgets the leader and is refused, because the next one still remembers
// it; the next one is elected. Votes and logs follow the ordinary rules, so
// a false alarm moves leaders and harms nothing.
//
// A balancer gives leadership back to preferred leaders that have returned, from
// leaders that have led for as long as the returned must be up.
// Transfers are guarded, because hashicorp/raft can be wedged by a transfer to
// a replica that does not answer (hashicorp/raft#696): the target must just
// have reported that it is caught up and hears this leader, one transfer per
// group and minute, five minutes of rest after a failure, calls that time out
// within twice the election timeout, and a watchdog that restarts a raft
// instance in which a transfer never ends.
//
// # Who votes
//
// A group's own log says who its members are ([Group.Members]); the options
// matter to a fresh group alone. A node joins in steps, each of which may be
// repeated: it opens the group with Join, the leader adds it without a vote
// ([Group.AddNonvoter]), and gives it one ([Group.Promote]) when the replica
// itself says that it is up to date: raft would do so at once, and wait for the
// newcomer's log with every commit. A node leaves by handing leadership over,
// [Group.Remove] on the new leader, and [Host.DropGroup] at home. A change
// names the configuration it was decided on, so a late one changes nothing, and
// none is made that leaves less than a majority of answering voters. A replica
// that was removed without knowing it asks for pre-votes, which nobody grants
// it.
//
// # Disks that fail
//
// Raft panics when it cannot save its term. So the first write that fails ends
// a group's raft instance instead: its connections are cut before raft learns anything,
// the replica that is farthest is asked to hold an election at once, and every
// second it is tried whether the disk takes writes again and has room
// ([Config.MinFree]). Then the log is opened anew, what the failed append may
// have left is cut off, and a new instance goes on above the same state machine.
// What fails again soon waits longer each time, 30 s at most, and for a minute
// nobody hands leadership to the replica. A write that does
// not end for four election timeouts costs a leader its followers. A node whose
// disk is nearly full hands its groups over while it still can, and is given
// none; so does one that its caller calls unfit ([Config.Unfit]), which hands
// over also what it wins, before it serves. [Host.Health] says all of that but the last; nothing that was acknowledged is lost,
// and nothing panics.
//
// A file is checked before it is used, and one that cannot be is [ErrDamaged],
// with its name and what to do. Values in the log carry no checksum of ours: a
// bit that a disk turns inside one is not noticed. Of two snapshots, the older
// one serves if the newer is unreadable and the log holds the rest; else that
// is damage too, even though raft would go on.
//
// Log and snapshots are bounded: two snapshots; before the next, 64 MiB of entries of
// all groups together (of a group half a MiB at least, and twice its state), or about
// 4096 entries; behind the newest half as many bytes, 128 to 1024 entries. The log's
// file, which is mapped into memory, does not shrink; its pages are used again.
//
// # Limits
//
// Pipelined replication is off (hashicorp/raft#612: one failed append wedges
// the follower). Replicas that lose their disk must come back under a new node
// id, or be removed first: a voter that forgets its votes may vote twice, and a
// preferred leader with an empty disk would bootstrap a second group.
package raftgroup
