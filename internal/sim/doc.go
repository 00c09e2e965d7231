// Package sim runs the real leader and aggregator code in virtual time: N members, one range, many
// keys; a network with delay, jitter, loss, repetition, reordering and partitions; nodes that die,
// restart, pause, and whose clocks drift; nodes that join; and a log in place of Raft's. A run is determined by its
// seed.
//
// [Run] plays a [Scenario] and compares admissions, key by key, with one central limiter that sees
// the same requests at the same moments (ideal.go), and with the most that may be admitted (the
// envelope).
//
// # What is real and what is simulated
//
// Every decision is made by the aggregator, every grant by the ledger. What package cluster does
// around them is simulated here in short form:
//
//   - looks.go: whether what nodes answer without a use swings;
//   - node.go: a process, with its clock, its inbox while it is paused, and its timers;
//   - member.go: the member loop. A node without open keys sleeps until the next request, so that a log of
//     days is played in seconds. With [Scenario.PerEntry] messages wait until their leader has time;
//   - clients.go: processes one level below the nodes, with real aggregators, attached to the real client ledger of
//     a node by streams that may break;
//   - requests.go: requests, waits for grants, decide requests;
//   - network.go: messages. A message in flight when a partition begins is lost with a probability of one
//     half. Leaders announce themselves when elected and every second;
//   - raft.go: elections. All nodes vote. A leader that a majority cannot reach for the election timeout stops
//     ([Scenario.Linger] later, if set), and at the same moment another one starts if there is a majority. A
//     paused leader steps down when it resumes and learns of the next one;
//   - log.go: a checkpoint commits a little after its proposal if the proposer's term is still the newest and
//     it reaches a majority; otherwise it is proposed again. The next leader starts from what is committed;
//   - resize.go, refunds.go, charges.go: changes of the limit, overrides and resets; what callers give back, and
//     what they charge after the fact;
//   - faults.go: faults and their times, and members that join. A leader suspects a node one delay after its process has ended, or
//     its connections are refused, if it can reach that node's machine; never because a node is silent. It
//     knows of a death (MemberGone) one delay after the next process has started;
//   - arrivals.go: requests. Each load has its own random numbers, so all algorithms see the same requests;
//   - wiresize.go: the exact size of reports and grants on the wire, without frames;
//   - invariants.go: invariants that are checked after every step of a leader, with [Scenario.Check].
//
// Requests to a dead node are neither sent elsewhere nor counted; those to a paused node wait there
// and are compared with the ideal when they are decided.
//
// Baselines (baseline.go), the algorithms of other limiters, decide in place of the real code
// behind the interface baseline: same requests, same network, same faults.
package sim
