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
// account gives up and is made again under another name after a random pause, so
// nobody waits while holding.
//
// An operation that fails where others hold is checked once more while they hold:
// the balances in an answer are always of one moment.
//
// # History
//
// What accounts were asked for is tallied by policy, each unit once (tally.go), and goes into
// the history as what limits were asked for does. On a node that keeps none it is not taken.
//
// # Bounds
//
// Commands waiting at the leader of a range: 4096; more are refused as overloaded,
// and nothing was done. In an entry: 512 commands or 1 MiB, whichever comes first,
// but always one. Entries of a range under way: 2. Transactions brought to their end
// in the background: 256 on a node; what is beyond waits for the once-a-second look,
// which takes 256 of a range at a time. Calls without a deadline: 10 s. A page of a
// list: 1000. Readings of accounts in several ranges: 10. What is over is deleted once a
// second, at most 16,000 accounts and as many request ids of a range. Policies that are
// tallied at a time: 10,000. Entries of a range that are known to be this node's until
// they are applied: 10,000. Transactions whose decision was not answered: 256.
package accounts
