// Package leader is the ledger of one range: reports in, grants and rates out.
//
// It is pure. The caller passes the time, owns the concurrency (one Ledger is
// used by one goroutine at a time) and carries the messages.
//
// # What it keeps
//
// For each key, the ledger has a bucket: the free pool (an exact token bucket,
// with debt below zero) and an allocation for each member. An allocation's out is every token
// that the ledger handed to the member and that is not known to be spent: held
// there, on its way there, or spent since its last report. Tokens leave the pool
// when they are granted. So after every step, whatever messages are lost,
//
//	pool + sum(out) changes only by refill and by the use that members report
//
// A report settles the allocation: tokens that the member neither used nor holds, and
// that can no longer reach it, return to the pool.
//
// Under soft, the level in grants has an unseen part: the probable use of the other
// members since their reports, estimated from their earlier use. It lowers the
// members' estimates, and does not overflow until they report; it is never booked.
//
// # Rates
//
// A member's refill rate is taken from the pool's as time passes. A reduced rate
// stays charged until the member acknowledges the reduction, reports that it accrues
// nothing more (ReportEntry.Stopped), or its lease ends. The charged rates never
// exceed the limit's, so two members never accrue the same token. Accrual stops at
// the grant's cap. For hard limits, the caps add up to at most the burst. That makes
// the hard ceiling exact: the tokens that can be spent at one moment never exceed the
// burst, and those that can be spent over time never exceed burst + rate x time.
//
// # Division
//
// Division is max-min fair by demand (demand.go), so a flood of refused requests
// gets no more than its fair share. Demand is attempts per second, averaged over
// three sync intervals. It rises with a surge as far as the requests so far prove
// one, and falls at once on silence. The number of tokens that are requested as one
// event, a batch, is estimated from the counts. Debt is repaid within about half a
// second by dividing less. Some shares are too small for a rate: less than one token
// per interval; under soft, a share whose part of the burst is less than half a batch;
// under hard, a share whose part has no room for a token. Members with such shares
// get whole tokens when they ask, in turns.
//
// The ledger remembers how much of the recent use each member is due (turns.go).
// This counts while there are too few tokens for all. Under hard, a member leaves the
// pool to members that are due more and whose callers were refused. Under soft, a
// member that got less than its part gets a higher rate instead, and one that got
// more receives a level without the tokens that the others hold and will use.
//
// When a member gets less than its part, the ledger recalls (push.go): it asks the
// members that hold or accrue more than planned to report now, and to return tokens
// that they do not need. Returned tokens go at once, in a grant that answers no
// report, to the members whose callers asked for them within the last half interval,
// or within the last three intervals for members without a rate. Both messages are in
// Pushed and can be lost: a member that is short asks again. Under soft, the ledger
// also recalls members whose presumed use is a large part of the level that another
// member receives, because a short burst looks like a surge.
//
// # A new leader
//
// A new leader starts every bucket from the checkpoint, or from a full bucket if
// the range's log has no debt of the key, and lowers it by what members report. Until
// every live member has reported, or the time for that is over, it repeats the rates
// that members have and grants nothing new. The use of a soft bucket without a leader
// is offset by the overflow of that time (amend).
//
// Where counts endure (quota.Limit.Endures), the checkpoint contains how much of each
// member's counters is booked (durable.go, line.go), and the new leader books exactly
// the difference. A member drops a key only when that is committed. The counts of a
// process that died come from its journal, through the node's next process
// (recovered counts). For other limits, the new leader uses the level that members
// received last, and their use since.
//
// # Why hard is exact
//
// Let E be the level of one central bucket that sees each admission when it happens.
// A member can spend the tokens that it holds (V) at any moment. So for the part of
// the tokens whose fate it does not know (L), the ledger keeps
//
//	pool + sum(V) + sum(L) <= E
//
// at every moment. V is at most standing, and pool + sum(standing) + sum(L) is kept
// within the burst, so that no refill is counted that E could not take. L is the
// yield of a rate that the member neither used nor holds. It returns only as far as
// the total never exceeded the burst in that time (overflow, allocation.exactly).
//
// The log keeps the inequality true when leaders die. A checkpoint promises each
// member a bounded amount beyond what is booked for it (promise). No leader grants
// more before the log has committed more. The next leader subtracts the whole promise
// from the pool until the member, or its journal, reports its use. So the tokens of a
// member that is dead, asleep, or cut off with an old leader have been set aside. A
// promise covers about two seconds of what the member needs, so steady traffic does
// not wait for the log. A part of every bucket is promised to every node without a
// line in the log (implicit.go). The first use of a window, and a surge, wait for one
// commit.
//
// Exact means up to a hundredth of a token, for rounding, and on the leader's clock:
// against true time, the error is that clock's drift while it leads, rate x drift x
// time: 3.6 tokens an hour for 10/s at 100 ppm. The conditions are: the log is not
// lost; clocks drift by less than a thousandth against each other; the wall clocks of
// nodes differ by at most MaxOffset.
//
// A new leader dates a checkpoint by its own clock, never too early (onClock). It has
// timed the entries that its replica saw committed. Entries that it read again, after a
// start or from a snapshot, it takes to be MaxOffset younger than the clocks say. So the
// pool refills too little by that amount, and no promise ends too soon. Therefore a
// wrong wall clock matters only for entries that were read again, and beyond MaxOffset
// a difference of d is worth up to rate x (d - MaxOffset).
//
// The clock of the current leader turns windows. Each window has its limit once: a
// leader that is behind does not return to a window before that of the log, and one
// that is ahead opens no window twice. But in true time, the end of one window and the
// beginning of the next overlap by the difference between the clocks of two leaders.
//
// For checks that it decides itself (decide: leader), the leader makes promises to
// itself in the same way (answers.go): it admits no more than the log allows for a
// second and a quarter, and the next leader subtracts that from the pool until then.
// The first use of a key, and a surge, wait for one commit. The death of a leader
// costs at most the tokens that were left in the bucket and, until the promise ends,
// the refill. For a window it costs the promised amount.
//
// Not covered are: limits that have just become hard; charges after the fact beyond
// the level; concurrency limits, whose places end with their node; and tokens of a
// member that stops for a lease while connections to it are refused, and then
// continues: it counts as dead (Suspect), as a crashed one must.
//
// # Kinds
//
// The pool is a limiter.Meter, so a bucket can be a token bucket, a window or a
// concurrency limit: docs/rfcs/20261121_every_rule.md. When a window ends, the
// members' tokens of it are void (bucket.turn), and use of it that is reported later
// is charged to nothing (delta.late). Members count returned tokens from 0 in each
// window. Returns that are reported after its end raise no level, also for a sliding
// window, in which they come back anyway. A place under a concurrency limit is not
// spent: it returns when it is released, or when its member is dead or has been silent
// for the limit's lease (bucket.recount). Tiers, parents and floors are separate
// buckets; members combine them.
//
// # Decide requests
//
// Ask decides on the books at once, for limits that their leader decides and for
// callers that wait for future tokens. An answer can be lost or late; then the member
// decides alone, and reports what it admitted. So that a request is not counted twice,
// a decide request has a name (member, incarnation, number), and
//
//   - a repeated request gets the same answer and is not booked again;
//   - a member that gave up on a request, or cannot use its answer, names it in its
//     reports of the key until one of them is answered: the request is cancelled.
//     The ledger takes back what it booked for it, once;
//   - a request that arrives after it was cancelled is refused.
//
// So the books contain the answers that members received, and those that they do not
// know yet. The member decides the fate of a request, because only the member knows
// whether a caller got the answer. Asking again instead would keep the caller waiting,
// and a dead leader cannot be asked.
//
// Counts are taken back as they were booked. The level is restored as far as the
// tokens would still be there: not for a window that has ended (in a sliding one they
// return anyway), not across a reset or a change of the limit, and not for tokens that
// would have overflowed a full level (rooms). A hard ceiling stays exact. Future tokens
// are a debt of the pool, and are taken back in the same way; a caller that got a
// later time before that waits that long.
//
// Two bounds make this inexact: the ledger keeps the newest 4096 requests of a member,
// for an hour after the last; a member keeps 4096 cancelled requests of a key. And a
// new leader knows no requests: those that an earlier leader booked stay in the level
// that it takes over. The counts are then too high by the requests in progress.
package leader
