// Package leader is the ledger of one range: reports in, grants and rates out.
//
// It is pure. The caller passes the time, owns the concurrency (one Ledger is
// used by one goroutine at a time) and carries the messages.
//
// # What it keeps
//
// For each key a bucket: the free pool (an exact token bucket, debt below
// zero) and for each member an allocation. An allocation's out is every token that was
// handed to the member and is not known to be spent: held there, on its way
// there, or spent since its last report. Tokens leave the pool when they are
// granted, so
//
//	pool + sum(out) changes only by refill and by what members say they used
//
// holds after every step, whatever messages are lost. A report settles the
// allocation: what neither was used nor is held nor can still arrive goes back to
// the pool.
//
// Under soft the level in grants has a part that is unseen: what the others have
// probably used since they reported, by what they used before. It is taken off
// the members' estimates, and does not overflow until they report; it is never
// booked.
//
// # Rates
//
// A member's refill rate is taken from the pool's as time passes. A rate that
// was cut stays charged until the member has acknowledged the cut, has said that
// it accrues nothing more (ReportEntry.Stopped), or its lease has ended; and the
// charged rates never exceed the limit's: two members never accrue the same token. Accrual stops at the grant's cap. For hard
// limits the caps add up to at most the burst. That makes the hard ceiling
// exact: what can be spent at one moment never exceeds the burst, and what can
// be spent over time never exceeds burst + rate x time.
//
// # Division
//
// Max-min fair by demand (attempts per second, averaged over three sync
// intervals, up on a surge as far as so few requests prove it, and down at once on
// silence; how many tokens come as one event, a batch, is estimated from the counts,
// demand.go): a flood of refused requests cannot buy more than its fair share. Debt
// is repaid within about half a second by dividing less. Shares that would be less
// than one token per interval are not given as a rate; nor, under soft, those whose
// part of the burst is less than half a batch, and under hard those whose part has no
// room for a token: whole tokens go to the members that ask, by turns.
//
// What each member is due of what all have used lately is remembered (turns.go). It
// counts as long as there is not enough for all. Under hard a member leaves the pool to
// those that are due more than it is and whose callers were refused. Under soft a member
// that has had less than its part gets a higher rate instead, and one that has had more
// receives a level without what the others hold and will use.
//
// When a member gets less than its part, the ledger recalls (push.go): it asks
// those that hold or accrue more than is foreseen to report now, and to give back
// what they do not need. What comes back goes at once to those whose callers
// wanted it within the last half interval, or within the last three of members that
// have no rate, in a grant that answers no report. Both are in Pushed, and may be lost: a
// member that is short asks again. Under soft it also recalls those whose presumed use is
// much of the level that another member receives: a short burst looks like a surge.
//
// # A new leader
//
// It starts every bucket from the checkpoint (or from a full bucket, if the
// range's log knows no debt of the key) and lowers it by what members report.
// Until every live member has spoken, or the time for it is over, it echoes the
// rates that members have and grants nothing new. What members admitted of a soft
// bucket without a leader is set against what overflowed in that time (amend).
//
// Where counts endure (quota.Limit.Endures) the checkpoint says of each member
// what is booked of its counters (durable.go, line.go), and the new leader books exactly
// what they are beyond that. A member lets go of a key when that is committed, not
// before. What a process counted that died comes from its journal, through the
// node's next process (Ledger.recovered counts). Other limits go by the level that members
// received last, and by what they used since.
//
// # Why hard is exact
//
// Let E be the level of one central bucket that sees what is admitted when it is
// admitted. What a member holds (V) can be spent at any moment, so the ledger
// keeps, for its own part of what it does not know for certain (L),
//
//	pool + sum(V) + sum(L) <= E
//
// at every moment. V is at most standing, and pool + sum(standing) + sum(L) is
// kept within the burst, so that no refill is counted that E could not take. L is
// what a rate yielded that the member neither used nor holds: it comes back only
// as far as everything together never exceeded the burst in that time (overflow,
// allocation.exactly).
//
// The log keeps it true over the deaths of leaders. A checkpoint promises each
// member at most so much beyond what is booked of it (promise); no leader grants
// more before the log has committed more, and the next one takes all of it out of
// the pool until the member, or its journal, reports what was used. So a member
// may be dead, cut off with an old leader, or asleep: what it can spend has been
// set aside. A promise is for about two seconds of what the member needs, so
// steady traffic does not wait for the log. A part of every bucket is promised to
// every node without a line in the log (implicit.go); the first use of a window,
// and a surge, wait for one commit.
//
// Exact means up to a hundredth of a token, for rounding, and on the leader's
// clock: against true time the rate is wrong by that clock's drift, for as long as
// it leads: rate x drift x time, 3.6 tokens an hour of 10/s at 100 ppm. It is under
// these conditions: the log is not lost; clocks drift by less than a thousandth
// against each other; the wall clocks of nodes differ by no more than MaxOffset.
//
// A new leader dates a checkpoint by its own clock, never too early (onClock): what
// its replica saw being committed it has timed itself since then; what it has read
// again, after a start or out of a snapshot, it holds to be MaxOffset younger than
// the clocks say. Then the pool has refilled too little by that, and no promise has
// ended too soon. So the wall clock, however wrong, matters only to what was read
// again, and beyond MaxOffset a difference of d is worth up to rate x (d - MaxOffset).
//
// Windows are turned by the clock of the current leader. Each has its limit, once:
// a leader that is behind does not return to a window before that of the log, and
// one that is ahead opens none twice. But by true time the end of one window and
// the beginning of the next overlap by what the clocks of two leaders differ.
//
// What the leader decides itself (decide: leader) it promises itself in the same way
// (answers.go): it admits no more than the log says it may, for a second and a
// quarter, and the next leader takes that out of the pool until then. The first use
// of a key, and a surge, wait for one commit; the death of a leader costs no more
// than what was left in the bucket, and until the promise ends what refills. Of a
// window it costs what was promised.
//
// Not covered: limits that have just become hard; what is charged after the fact
// beyond what there was; what is in flight, which dies with its node; and what a
// member holds that stands still for a lease while connections to it are refused, and
// then continues: it counts as dead (Suspect), as one that has crashed has to.
//
// # Kinds
//
// The pool is a limiter.Meter, so a bucket may be a bucket, a window or what
// is in flight: docs/rfcs/20261121_every_rule.md. When a window ends, what
// members hold of it is void (bucket.turn), and use that is reported later and
// belongs to it is charged to nothing (delta.late). Members count what callers gave
// back from 0 in each window, and what is reported after its end raises no level: of
// a sliding window, too, of which it comes back anyway. What is in flight is not
// spent: it comes back when it is released, or when its allocation is dead or has been
// silent for the limit's lease (bucket.recount). Tiers, parents and floors are
// buckets of their own: members put them together.
//
// # Decide requests
//
// Ask decides on the books at once, for limits that their leader decides and
// for callers that wait for tokens to come. An answer may be lost or come too
// late; the member decides alone then, and reports what it admitted. So that the
// same request is not counted twice, a decide request has a name (member, incarnation,
// number), and
//
//   - a decide request that is repeated gets the same answer and is not booked again;
//   - a member that gave up on a decide request, or has no use for the answer, names it
//     in its reports of the key until one of them is answered: it has cancelled
//     it. The ledger takes back what it has booked for it, once;
//   - a decide request that arrives after it was cancelled is refused.
//
// So the books contain the answers that members received, and those that they do
// not know yet. The member decides what became of a decide request, since it alone
// knows whether a caller has heard the answer; to ask again instead would keep
// the caller waiting, and a leader that is gone cannot be asked.
//
// Counts come back as they were booked. The level comes back as far as it would
// still be there: not of a window that has ended (of a sliding one it flows back
// anyway), not from before a reset or a change of the limit, and of what a full
// level could not have gained, nothing (rooms). A hard ceiling stays exact.
// Tokens to come are a debt of the pool, and come back in the same way; a caller
// that received a later time before that waits that long.
//
// Two bounds make this inexact: the ledger knows the newest 4096 decide requests of a
// member, for an hour after its last; a member keeps 4096 cancelled ones of a
// key. And a new leader knows none: what an earlier one booked stays in the level
// that it has taken over. The counts are too high then, by the decide requests that
// were under way.
package leader
