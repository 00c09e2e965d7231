// Package raftgroup runs many Raft groups on one node over the links of package transport. It is
// the only package that imports hashicorp/raft: other packages see a [Host], its [Group]s and the
// caller's [StateMachine]s.
//
// # One node
//
//	        Host ── balancer, forced elections, parked votes
//	      /  |   \
//	Group  Group  Group ── raft instance, state machine, snapshots
//	      \  |   /
//	     transport ── control: heartbeats, votes   data: entries
//	         |        own connection: snapshots
//	      transport.Net
//
// A node's id is both its Raft id and its Raft address. The goroutine that reads the connection
// answers heartbeats of the current term, since they touch no disk. All other messages wait in a
// short queue per group and are refused as busy when it is full, so one stalled group does not
// delay the others.
//
// # Many idle groups
//
// The cost of an idle node is the number of its wakeups. Therefore the heartbeats of all groups
// to a node leave in one write and are answered in one write. Each heartbeat waits for the
// others, but never longer than raft's own timer might have taken: a fifth of the heartbeat
// timeout after the last answer. Appends without entries, by which followers learn the commit
// index, travel with them, but leave at once when there is an entry. When a heartbeat is
// answered, the host asks raft for the next one at once, which then waits in the batch, so raft's
// own timer need not fire. The protocol is unchanged: each group's heartbeat is still a frame
// that its follower answers.
//
// # One log
//
// The logs of all groups are one file, raft/log.db ([sharedlog]): appends and votes of all groups
// that wait go into one transaction and one sync. Snapshots are directories of each group. Their
// names and contents are synced before the entries that they cover are deleted.
//
// # From election to service
//
// Winning an election is not enough to serve. A new leader first proposes a barrier, an entry
// that names the term. It serves ([GroupOptions.OnLeading]) only when that entry is applied under
// that same term: it then holds everything committed before. From then on, every answer should
// carry the term, so that receivers that know a newer term ignore it. Leadership is not a lease:
// a deposed leader may consider itself the leader for up to Timing.Lease.
//
// # Where leaders are
//
// The first of [GroupOptions.Voters] is the initial preferred leader; see [Group.SetPreferred].
// It bootstraps the group, alone, and campaigns as soon as a quorum is connected. The others have
// no configuration yet and vote for it. Leaders are thus in the right place from the start,
// within a fraction of a second. If the preferred leader is absent for five seconds, the next
// voter that is present creates the group with the same entry, also if it has a term already: it may
// have voted in an election that nobody survived. Votes and first entries for a group
// that is not open yet are parked until it opens. Replication to a disconnected peer waits for
// the peer instead of failing: raft's own backoff would leave a returning follower without
// entries for up to ten seconds.
//
// When a leader's process is dead, or probably dead ([Host.PeerDead]), its groups do not wait for
// their timers. After the dead leader's lease has certainly expired, the survivors lower their
// heartbeat timeout for a second, which fires it: one replica after the other, 30 ms apart, in
// the order of the voters. The first one forgets the leader and is refused, because the next one
// still remembers it; the next one is elected. Votes and logs follow the ordinary rules, so a
// false alarm moves leaders but does no harm.
//
// A balancer returns leadership to preferred leaders that have come back. The preferred leader
// must have been connected, and the current leader have led, for [Config.BalanceAfter]. Transfers
// are guarded, because a transfer to a replica that does not answer can wedge hashicorp/raft
// (hashicorp/raft#696). The target must just have reported that it is caught up and hears this
// leader. The balancer makes one transfer per group and minute and rests for five minutes after a
// failure. Calls time out within twice the election timeout, and a watchdog restarts a raft
// instance in which a transfer never ends.
//
// # Who votes
//
// A group's own log defines its members ([Group.Members]); the options matter only to a fresh
// group. A node joins in steps, each of which may be repeated. It opens the group with Join, the
// leader adds it without a vote ([Group.AddNonvoter]), and the leader gives it a vote
// ([Group.Promote]) once the replica itself reports that it is up to date. Raft alone would grant
// the vote at once, and every commit would wait for the newcomer's log. A node leaves by
// transferring leadership, [Group.Remove] on the new leader, and [Host.DropGroup] on itself. A
// change names the configuration that it was decided on, so a late change has no effect, and no
// change is made that leaves less than a majority of answering voters. A replica that does not
// know of its removal asks for pre-votes, which no member grants.
//
// # Disks that fail
//
// Raft panics when it cannot save its term. Therefore the first failed write ends a group's raft
// instance: its connections are cut before raft learns of the failure, and the replica with the
// longest log is asked to hold an election at once. Every second, the host checks whether the
// disk accepts writes again and has room ([Config.MinFree]). Then it reopens the log, at the last
// transaction that was synced, truncates what the failed append may have left, and starts a new
// instance on the same state machine. A failed write fails the log for all groups, so each of them
// goes through this when it writes next; the first to return reopens the log for all. If
// that fails again soon, the pause grows, up to 30 s. For a minute no node transfers leadership
// to the replica. A leader whose write takes longer than four election timeouts loses its
// followers. A node whose disk is nearly full transfers its groups while it still can, and gets
// none. The same holds for a node that its caller calls unfit ([Config.Unfit]), which also
// transfers the groups that it wins, before it serves. [Host.Health] reports all of this except
// unfitness. No acknowledged entry is lost, and nothing panics.
//
// Each file is checked before use. An unusable one yields [ErrDamaged], with its name and the
// remedy. Entries, terms and votes carry a checksum. One that can no longer be read while the node
// runs ends the replica, not the process.
// Of two snapshots, the older one serves if the newer one is unreadable and the log holds the
// rest; otherwise that is damage too, although raft would continue.
//
// Logs and snapshots are bounded. A group keeps two snapshots. It takes the next one after about
// 4096 entries, or when its share of 64 MiB for the entries of all groups is used up (a group's
// share is at least half a MiB, and at least twice the size of its state). Behind the newest
// snapshot it keeps half as many bytes, 128 to 1024 entries. The log's file, which is mapped into
// memory, does not shrink; its pages are reused.
//
// # Limits
//
// Pipelined replication is off (hashicorp/raft#612: one failed append wedges the follower). A
// replica that loses its disk must come back under a new node id, or be removed first: a voter
// that forgets its votes may vote twice, and a preferred leader with an empty disk would
// bootstrap a second group.
package raftgroup
