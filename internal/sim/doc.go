// Package sim runs the real leader and aggregator code in virtual time: N
// members, one range, many keys; a network with delay, jitter, loss, repetition,
// reordering and partitions; nodes that die, come back, stand still, and whose
// clocks drift; and a log that stands for Raft's. Everything follows from one
// seed.
//
// [Run] plays a [Scenario] and compares what was admitted, key by key, with one
// central bucket that sees the same requests at the same moments (ideal.go), and
// with the most that may be admitted (the envelope).
//
// # What is real, and what stands for it
//
// Every decision is the aggregator's, every grant the ledger's. What package
// cluster does around them is played here, in short form:
//
//   - node.go: a process, with its clock, its inbox while it is paused, and its
//     timers;
//   - member.go: the member loop. A node where no key is open sleeps until the
//     next request, so that a log of days is played in seconds;
//   - clients.go: processes one level below the nodes, with real aggregators, attached
//     to the real branch of a node by streams that may break;
//   - requests.go: the way of a request, the wait for a grant, questions;
//   - network.go: messages. One that is on its way when a partition begins is lost
//     with even odds. Leaders announce themselves when elected and every second;
//   - raft.go: who leads. All nodes vote. A leader that a majority does not see
//     for the time of an election stops ([Scenario.Linger] later, if that is set),
//     and at the same moment another begins where there is a majority. A paused
//     leader gives up when it wakes and hears of the next one;
//   - log.go: checkpoints commit a little after they were proposed, if the
//     proposer's term is still the newest and it sees a majority; else they are
//     proposed again. The next leader starts from what is committed;
//   - faults.go: what goes wrong and when. A leader suspects a node one delay after its
//     process has ended, or begins to be behind something that refuses connections, if
//     it can see that node's machine; never because a node is silent. It knows a death
//     (MemberGone) one delay after the next process has begun;
//   - arrivals.go: requests. Each load has random numbers of its own, so that all
//     algorithms see the same;
//   - wiresize.go: what reports and grants take in protobuf, exactly, without the
//     frames around them;
//   - invariants.go: what must hold after every step of a leader, with
//     [Scenario.Check].
//
// Requests to a dead node are not asked anywhere else, and not counted; those to
// a paused one wait there and are compared with the ideal when they are decided.
//
// Baselines (baseline.go), what other limiters do, decide in place of the real
// code behind the interface rival: same requests, same network, same faults.
package sim
