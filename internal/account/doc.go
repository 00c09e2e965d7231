// Package account is the state machine of durable quotas in one range: accounts,
// the policies copied into them, requests that were applied, and transactions that
// reach into other ranges.
//
// It is pure: times come with the commands, and nothing but those changes it. The
// model is that of LUCI's server/quota; docs/rfcs/20261121_durable_quotas.md says
// what was taken from it, and how ranges agree. docs/durable-quotas-sentences.md goes
// through the description of the model, with a test for each sentence.
//
// # Time
//
// A store's time is the newest that it has seen; an entry with an older one counts as
// that. Nothing runs by itself: refill is computed from the time of an account's last
// change, by the policy that it had since (refill.go). Interval divides the day, so the
// number of refills between two times is a difference of two quotients. An account whose
// lifetime is over is missing at once, to operations and to views alike; Collect only
// makes room.
//
// # A request
//
// The operations go over drafts, copies of the accounts that they name (draft.go): each
// sees what those before it have done, and one that fails changes nothing. If none fails,
// the drafts become records, with one change in each account's history.
//
// Balances are whole numbers within 2^53-1 on both sides of 0. All sums are below 2^55, so
// that nothing overflows.
//
// # What is kept
//
// Accounts are in a persistent ordered tree, by a key in whose order the ids' parts sort
// (key.go). Records are never changed, only replaced, so that a view or a snapshot is a
// copy of a few pointers, and reads on while commands are applied. A policy is there once
// for all accounts that have it. A history is packed into one string (history.go).
// With ids of 80 bytes, BenchmarkMillion has about 300 bytes per account that was changed
// once, and 600 with a full history; a snapshot has 160 and 320.
// A request id of one operation takes about 230 bytes.
//
// # Transactions
//
// To prepare is to make the records, and to keep them beside the store. Their accounts,
// the request's id and the room that they need are held until the end, so that a commit
// cannot fail, whatever happens in between. What a commit stores is as of the time
// when it was prepared; refills since then come with the next use.
//
// A transaction that is over is remembered for ten minutes: at home so that whoever asks late
// is told what was decided, and elsewhere so that a Prepare which was delayed or doubled on
// its way is not taken for a new one, and then committed a second time by what home says.
// We rely on it that no message is delivered more than ten minutes after it was sent.
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
// A snapshot is a header and records, each behind its length, and an end with counts and a
// checksum (snapshot.go). It is the same on every replica: all is written in the order of
// keys, and policies where they are first needed. Restore builds a new store beside the
// old one, and checks every record; an error leaves the old one as it was.
package account
