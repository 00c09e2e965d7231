// Package accounts keeps durable balances on the ranges of a cluster: it brings
// the pure state machine of package internal/account together with the ranges'
// Raft groups. docs/rfcs/20261121_durable_quotas.md says what is promised.
//
//	ApplyOps ──> one range:  submit ──────────────> queue ──> entry ──> Replica
//	         └─> several:    Begin, Prepare, Decide, Finish, Forget, each a submit
//	GetAccounts ─> read ──> confirm (one round for all that wait) ──> View
//	once a second, at each range's leader: what coordinators have left behind
//
// # Ways
//
// submit carries one command to the leader of its range, here or in one hop, and
// repeats it through elections when that does no harm: always if nothing was done,
// and with a request id or the name of a transaction also if that is not known.
// The leader's queue of the range puts what waits into one entry of the log.
//
// # Transactions
//
// The node that takes the call is the coordinator. Only it decides to commit; all
// others only abort what is undecided for three seconds. It may stop at any point:
// whoever leads a range looks once a second at what its log holds as prepared, asks
// the home for the decision and carries it out. An attempt that meets a held
// account gives up and is made again under another name, so nobody holds while waiting.
//
// # Lines
//
// Calls that change the same accounts wait in line, so that they do not abort each
// other. The calls of one node do so at that node, account by account, for three seconds
// at most (line.go). A transaction that has met another, or whose accounts this node has
// lately seen contended, then waits for its turn at the leaders of its ranges, in
// ascending order of ranges and accounts (turn.go). While it is the turn of one,
// others prepare nothing at its accounts. A turn ends when the Decide or Finish of its
// transaction goes into the log, so that the next one's commands follow at once, and
// after three seconds. A call on one range waits for a turn too when it meets a holder.
// Lines are in memory and only avoid conflicts: what holds an account is in the log.
//
// # Bundles
//
// Calls on several ranges that wait in line at a node for the same accounts are committed together
// (bundle.go): the first one waits for all, and takes those along that have come when its turn does. They are
// one transaction with several requests, one after the other. If one of them fails, or any was applied
// before, nothing was done: each is then made by itself, and so are all calls on these accounts for two seconds.
//
// An operation that fails where others hold is checked once more while they hold:
// the balances in an answer are always of one moment.
//
// # History
//
// What accounts were asked for is tallied by policy, each unit once (tally.go), and goes into
// the history as what limits were asked for does. On a node that keeps none it is not taken.
//
// # Time
//
// Entries carry the log's time: it passes as time passes at the leader, and is set to the leader's
// clock only while that agrees with those of most nodes (replica.go). So no wrong clock ends what
// is to last, such as what is known of requests.
//
// # Bounds
//
// Calls in line at the node that coordinates them: 4096, and 16 MiB of account names. As many
// for turns at the ranges that a node leads. Further ones go on without a line. Calls in a bundle: 64, 1000
// operations, and 256 KiB. A Forget waits 20 ms
// for other commands to share an entry with. Commands waiting at the leader of a range: 4096; more are refused as overloaded,
// and nothing was done. In an entry or a message: 512 commands, 1 MiB, or as many as can be
// answered in 12 MiB, whichever comes first, but always one. Entries of a range under way: 2. Transactions brought to their end
// in the background: 256 on a node; what is beyond waits for the once-a-second look,
// which takes 256 of a range at a time. Calls without a deadline: 10 s. A page of a
// list: 1000. Readings of accounts in several ranges: 10. What is over is deleted once a
// second, at most 16,000 accounts and as many request ids of a range. Policies that are
// tallied at a time: 10,000. Entries of a range that are known to be this node's until
// they are applied: 10,000. Transactions whose decision was not answered: 256.
package accounts
