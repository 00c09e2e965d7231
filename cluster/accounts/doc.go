// Package accounts keeps durable balances on the ranges of a cluster: it connects the pure state
// machine of package internal/account to the ranges' Raft groups.
// docs/rfcs/20261121_durable_quotas.md states the guarantees.
//
//	ApplyOps ──> one range:  submit ──────────────> queue ──> entry ──> Replica
//	         └─> several:    Begin, Prepare, Decide, Finish, Forget, each a submit
//	GetAccounts ─> read ──> confirm (one round for all that wait) ──> View
//	once a second, at each range's leader: finish what coordinators left behind
//
// # Submitting commands
//
// submit sends one command to the leader of its range, on this node or one hop away. It retries
// through elections when a retry is safe: always if nothing was applied, and if the outcome is
// unknown only for commands that carry a request ID or a transaction name. The leader's queue for
// the range batches the waiting commands into one log entry.
//
// # Transactions
//
// The node that receives the call is the coordinator. Only the coordinator decides to commit; any
// other node can only abort a transaction that has been undecided for three seconds. The
// coordinator may stop at any point: once a second, the leader of each range looks for prepared
// transactions in its log, asks the home for the decision and carries it out. An attempt that meets
// a held account gives up and is retried under another name, so no transaction holds accounts while
// it waits.
//
// # Lines
//
// Calls that change the same accounts wait in line, so that they do not abort each other. The calls
// of one node wait at that node, account by account, for at most three seconds (line.go). A
// transaction that has met another one, or whose accounts this node has recently seen contended,
// then waits for its turn at the leaders of its ranges, in ascending order of ranges and accounts
// (turn.go). During a turn, no other transaction prepares anything at its accounts. A turn ends
// when the Decide or Finish of its transaction goes into the log, so that the commands of the next
// one follow at once, and after three seconds at the latest. A single-range call that meets a
// holder also waits for a turn. Lines are in memory and only avoid conflicts: the log alone
// determines what holds an account.
//
// # Bundles
//
// Multi-range calls that wait in line at a node for the same accounts are committed together
// (bundle.go): the first call waits for all, and when its turn comes it takes along the calls that
// have arrived. They form one transaction with several requests, applied one after the other. If
// one of them fails, or was applied before, nothing is applied: each call is then carried out
// alone, and so are all calls on these accounts for two seconds.
//
// An operation that fails while other ranges hold is checked again while they hold: the balances in
// an answer always belong to one moment.
//
// # History
//
// The demand on accounts is tallied by policy, each unit once (tally.go), and goes into the history
// like the demand on limits. A node without a history does not collect the tally.
//
// # Time
//
// Entries carry the log's time: it advances with the time that passes at the leader, and follows
// the leader's clock only while that clock agrees with those of most nodes (replica.go). So a wrong
// clock cannot expire anything early, such as the remembered requests.
//
// # Bounds
//
// Owners are the callers of a node (account.Caller), as far as that node knows them. What a node
// forwards counts at the leader for that node: its callers have shared its queue and its lines before.
// A bundle counts for the owner of its first call; if it finds no room, its calls continue one by one.
//
//   - Calls in line at their coordinator: 4096, and 16 MiB of account names. The same for turns at the
//     ranges that a node leads. Calls beyond that continue without a line. Owners share the 4096
//     (fairshare.PerFree).
//   - Calls in a bundle: 64, with at most 1000 operations and 256 KiB.
//   - A Forget waits up to 20 ms for other commands to share an entry with.
//   - Commands waiting for a range, at its leader or at a node that forwards them: 4096, which owners
//     share too. More are refused as overloaded, with nothing applied. What ends a call counts for no
//     owner.
//   - An entry or a message: 512 commands, 1 MiB, or as many as can be answered in 12 MiB, whichever
//     comes first, but always at least one.
//   - Entries of a range in flight: 1. Messages with commands, from a node to the leader of a range: 4.
//   - Transactions being finished in the background: 256 per node. The rest wait for the look that each
//     leader takes once a second, at 256 transactions of a range at a time.
//   - Calls without a deadline: 10 s.
//   - A page of a list: 1000 accounts.
//   - Readings of accounts in several ranges: 10.
//   - Expired items deleted per second and range: 16,000 accounts and as many request IDs.
//   - Policies tallied between two collections: 10,000.
//   - Entries of a range remembered as this node's own until they are applied: 10,000.
//   - Transactions whose decision got no answer: 256.
package accounts
