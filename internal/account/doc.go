// Package account implements the state machine of durable quotas in one range: accounts, the
// policies copied into them, applied requests, and transactions that span ranges.
//
// The package is pure: times come with the commands, and only commands change state. The model
// follows LUCI's server/quota; docs/rfcs/20261121_durable_quotas.md says what we took from it and
// how ranges agree. docs/development/durable-quotas-sentences.md goes through the description of the model,
// with a test for each sentence.
//
// # Time
//
// A store's time is the newest that it has seen; an entry with an older time counts as that.
// Nothing runs in the background: the store computes refill from the time of an account's last
// change, under the policy that the account has had since (refill.go). Interval divides the day, so
// the number of refills between two times is a difference of two quotients. An account is missing
// to operations and views as soon as its lifetime ends; Collect only frees the memory.
//
// # Requests
//
// Operations run on drafts, copies of the accounts that they name (draft.go). Each operation sees
// the effects of those before it, and a failed one changes nothing. If none fails, the drafts
// become records, with one change in each account's history.
//
// Balances are whole numbers within ±(2^53-1). All sums stay below 2^55, so nothing overflows.
//
// # Storage
//
// A persistent ordered tree holds the accounts, by a key that sorts as the parts of the ids do
// (key.go). Records are immutable, so a view or a snapshot copies a few pointers and keeps reading
// while commands are applied. Accounts with the same policy share one copy of it. A history is
// packed into one string (history.go). With ids of 80 bytes, BenchmarkMillion measures about 300
// bytes per account that changed once, and 600 with a full history; a snapshot takes 160 and 320. A
// request id of one operation takes about 230 bytes.
//
// # Transactions
//
// Preparing makes the records and keeps them beside the store. The transaction holds their
// accounts, the request's id and the room that they need until it ends, so a commit cannot fail,
// whatever happens in between. A commit stores the state as of the prepare; the next use of an
// account applies the refills since then.
//
// The store remembers a transaction for ten minutes after it ends: at home to answer late questions
// about the decision, and elsewhere so that a delayed or duplicated Prepare does not count as a new
// transaction, which home's decision would then commit a second time. This relies on no message
// being delivered more than ten minutes after it was sent, by the time of the entries.
//
// # Bounds
//
//	accounts, request ids, transactions   Bounds; beyond them Apply answers Full
//	transactions that are remembered      2^19; the oldest go first
//	operations of a request               MaxOps
//	changes kept of an account            MaxHistory
//	deleted by one Collect                10,000 accounts, request ids and ended transactions each
//	one record of a snapshot              64 MiB
//
// # Snapshots
//
// A snapshot is a header, length-prefixed records, and an end with counts and a checksum
// (snapshot.go). It is identical on every replica: records are in the order of their keys, and each
// policy comes just before its first use. Restore builds a new store beside the old one and checks
// every record; an error leaves the old store unchanged.
package account
