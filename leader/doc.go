// Package leader implements the ledger of one range. It books the reports of members and answers
// them with grants.
//
// The package is pure: the caller passes the time, carries the messages, and uses a Ledger from one
// goroutine at a time.
//
// # State
//
// The ledger keeps a bucket for each key: the free pool (an exact token bucket; below zero is debt)
// and one allocation per member. An allocation's out is the sum of all tokens that the member
// received and that are not known to be spent. They are held there, on their way there, or spent
// since the member's last report. Tokens leave the pool when they are granted, so after every step,
// whatever messages are lost,
//
//	pool + sum(out) changes only by refill and by reported use
//
// A report settles the allocation: tokens that were not used, are not held and cannot still arrive
// return to the pool.
//
// Under soft, grants state the unseen part of the level: the probable use by other members since
// their last reports, extrapolated from their earlier use. Members subtract it from their
// estimates, and it does not overflow until they report. It is never booked.
//
// A bucket that nobody has used for a few seconds is at rest: its state is packed into bytes, and
// restored, exactly, by whatever needs it next (rest.go).
//
// # Rates
//
// A member's refill rate is taken from the pool's as time passes. After a cut, the old rate stays
// charged until the member acknowledges the cut, reports that it accrues nothing more
// (ReportEntry.Stopped), or its lease ends. The charged rates never exceed the limit's, so two
// members never accrue the same token. Accrual stops at the grant's cap. For hard limits the caps
// add up to at most the burst. The hard ceiling is therefore exact: the tokens that can be spent at
// one moment never exceed the burst, and over time they never exceed burst + rate x time.
//
// # Division
//
// Division is max-min fair by demand, so a flood of refused requests cannot buy more than its fair
// share. Demand is attempts per second, averaged over three sync intervals. It follows a surge as
// far as the number of requests proves it, and drops at once on silence. The number of tokens that
// arrive as one event, a batch, is estimated from the counts (demand.go). Debt is repaid within
// about half a second by dividing less.
//
// A share becomes a rate only if it yields a token per interval; under soft, if the member's part
// of the burst is also at least half a batch; under hard, if that part has room for a token. Other
// members receive whole tokens when they ask, in the order of their deficits.
//
// The deficit of a member is its share of recent use less its own use (deficit.go). It counts while
// tokens are scarce. Under hard a member leaves the pool to members with a larger deficit whose
// callers were refused, and where the leader decides, a member that had more than its share leaves
// one request for each member that had less. Under soft a member with a deficit gets a higher rate
// instead, and one that used more than its share receives a level without the tokens that others
// hold and will use.
//
// When a member gets less than its share, the ledger sends recalls (push.go): members that hold or
// accrue more than expected report at once and return what they do not need. Returned tokens go at
// once, in a grant that answers no report, to members whose callers wanted them within the last
// half interval, or within the last three intervals if the member has no rate. Pushed returns
// recalls and these grants. They may be lost: a member that is short asks again. Under soft the
// ledger also recalls from members whose presumed use is a large part of the level that another
// member receives, because a short burst looks like a surge.
//
// # A new leader
//
// A new leader starts every bucket from the checkpoint, or full if the range's log has no line of
// the key, and lowers it by what members report. Until all live members have reported, or the
// learning time is over, it repeats the rates that members have and grants nothing new. Overdrafts
// of a soft bucket while it had no leader are set against the tokens that overflowed in that time
// (amend).
//
// Where counts endure (quota.Limit.Endures), the checkpoint states how much of each member's
// counters is booked (durable.go, line.go), and the new leader books exactly the difference. A
// member closes a key only after its counts are committed. The counts of a dead process come from
// its journal, through the node's next process (Ledger.bookRecovered). For other limits the new
// leader goes by the level that members last received and by their use since.
//
// # Why hard is exact
//
// Let E be the level of one central bucket that charges every admission when it happens. The tokens
// that a member holds (V) can be spent at any moment. With L for the tokens whose fate the ledger
// does not know, it keeps at every moment
//
//	pool + sum(V) + sum(L) <= E
//
// V is at most standing, and pool + sum(standing) + sum(L) is kept within the burst, so the ledger
// counts no refill for which E had no room. L is the yield of rates that the member neither used
// nor holds. It returns only as far as the total never exceeded the burst in that time (overflow,
// allocation.exactly).
//
// The log preserves the inequality when leaders die. A checkpoint bounds what each member may use
// beyond its booked counts (promise). No leader grants more before the log has committed more, and
// the next leader keeps all of it out of the pool until the member, or its journal, reports its
// use. The tokens of a member that is dead, cut off with an old leader, or paused are therefore set
// aside. A promise covers about two seconds of the member's need, so steady traffic does not wait
// for the log. Every node has an implicit promise of a part of every token bucket, without a line
// in the log (implicit.go). The first use of a window, and a surge, wait for one commit.
//
// Exact means within a hundredth of a token, for rounding, and on the leader's clock: against true
// time the rate is wrong by that clock's drift while it leads: rate x drift x time, 3.6 tokens an
// hour of 10/s at 100 ppm. The conditions are: the log is not lost; clocks drift by less than a
// thousandth against each other; the wall clocks of nodes differ by at most MaxOffset.
//
// A new leader dates a checkpoint on its own clock, never too early (onClock). It has timed itself
// the lines that its replica saw committed. Lines that it read again, after a start or from a
// snapshot, count as younger by MaxOffset than the clocks say. So the pool refills too little by
// that much, and no promise ends too soon. A wrong wall clock matters only to lines that were read
// again: a difference of d, beyond MaxOffset, is worth at most rate x (d - MaxOffset).
//
// Windows follow the clock of the current leader. Each window has its limit once: a leader whose
// clock is behind does not return to a window before that of the log, and one whose clock is ahead
// opens none twice. In true time, the end of one window and the beginning of the next overlap by
// the difference of the clocks of two leaders.
//
// Where the leader decides (decide: leader), it makes the same promise to itself (answers.go): for
// a second and a quarter it admits no more than the log allows, and the next leader keeps that
// amount out of the pool until then. The first use of a key, and a surge, wait for one commit. The
// death of a leader costs at most the tokens that were left in the bucket and, until the promise
// ends, the refill; of a window, the promised amount.
//
// Not covered are: limits that have just become hard, or were cut and not all nodes know it yet;
// charges after the fact that exceed the level; what is in flight, which dies with its node; and
// tokens of a member that pauses for a lease while connections to it are refused, and then
// continues: it counts as dead (Suspect), like one that crashed.
//
// # Kinds
//
// The pool is a limiter.Meter, so a bucket may be a token bucket, a window or the number of
// requests in flight: docs/rfcs/20261121_every_rule.md. When a window ends, the tokens that members
// hold of it are void (bucket.roll), and late reports of use that belongs to it are charged to
// nothing (delta.late). Members count refunds from 0 in each window, and a refund that is reported
// after the window's end raises no level. This includes sliding windows, to which the use returns
// anyway. What is in flight is not spent: it returns when it is released, when the allocation is
// dead, or when the allocation has been silent for the limit's lease (bucket.recount). Tiers,
// parents and floors are buckets of their own; members combine them.
//
// # Decide requests
//
// Ask decides at once from the ledger, for limits with decide: leader and for callers that wait for
// future tokens. An answer may be lost or late; then the member decides alone and reports what it
// admitted. To count such a request once, a decide request has a name (member, incarnation,
// number):
//
//   - a repeated decide request gets the same answer and is not booked again;
//   - a member that gave up on a decide request, or does not use the answer, cancels it: it names
//     the request in its reports of the key until one of them is answered. The ledger reverses the
//     booking, once;
//   - a decide request that arrives after its cancellation is refused.
//
// So the ledger contains the answers that members received, and those whose fate it does not know
// yet. The member determines the outcome, since it alone knows whether its caller received the
// answer. Asking again instead would keep the caller waiting, and a dead leader cannot be asked.
//
// Counts are reversed as booked. The level is restored only as far as the tokens would still be
// there: not for a window that has ended (to a sliding one they return anyway), not across a reset
// or a change of the limit, and not what a full level could not have gained (rooms). A hard ceiling
// stays exact. Reserved future tokens are debt of the pool and are reversed in the same way; a
// caller that received a later time before that still waits that long.
//
// Two bounds make this inexact. The ledger remembers the newest 4096 decide requests of a member,
// for an hour after the last. A member keeps 4096 cancelled ones of a key. In these cases the counts
// are too high, by the decide requests that were under way.
//
// A new leader knows no decide requests. Under soft, where counts endure
// (quota.Limit.ReportsAnswers), an answer moves the cost from the pool to the member's out, and the
// member reports it as use (allocation.answered): it changes nothing for the leader that admitted
// it, and a new leader books it beyond the mark, like any other use. What the member does not
// report returns when it closes the key. For other limits the bookings of an earlier leader stay in
// the level that a new one takes over, so it may count requests that were under way.
package leader
