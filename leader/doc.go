// Package leader implements the ledger of one range. It books the reports of members and answers
// them with grants.
//
// The package is pure: the caller passes the time, carries the messages, and uses a Ledger from one
// goroutine at a time.
//
// # State
//
// The ledger keeps a bucket for each key: a pool of free tokens (an exact token bucket; a negative
// level is debt) and one allocation per member. An allocation's out is the number of tokens granted
// to the member and not yet reported as spent: the member holds them, they are in flight, or it has
// spent them since its last report. Granting takes tokens out of the pool, so after every step, even
// if messages are lost,
//
//	pool + sum(out) changes only by refill and by reported use
//
// A report settles the allocation: tokens that the member neither used nor holds, and that are no
// longer in flight, return to the pool.
//
// Under soft, each grant carries the unseen use: what other members have probably used since their
// last reports, extrapolated from earlier reports. Members subtract it from their estimates, and it
// does not overflow until they report. It is never booked.
//
// A bucket that has been idle for a few seconds is packed into bytes, and unpacked without loss when
// it is next needed (pack.go).
//
// # Rates
//
// A member's refill rate is deducted from the pool's refill. After a cut, the old rate stays
// charged until the member acknowledges the cut, reports that it has stopped accruing
// (ReportEntry.Stopped), or its lease ends. The charged rates never add up to more than the limit's
// rate, so no two members accrue the same token. Accrual stops at the grant's cap, and the caps of a
// hard limit add up to at most the burst. The hard ceiling is therefore exact: spendable tokens never
// exceed the burst, and admissions never exceed burst + rate x time.
//
// # Division
//
// Division is max-min fair by demand, so a flood of refused requests gets no more than its fair
// share. Demand is attempts per second, averaged over three sync intervals. It rises at once to the
// rate that a surge's count proves, and drops at once when requests stop. Counts also give an
// estimate of the batch: how many tokens arrive as one event (demand.go). Debt is repaid within about
// half a second: the ledger divides that much less.
//
// A share becomes a rate only if it yields a token per interval; under soft, if the member's part
// of the burst is also at least half a batch; under hard, if that part has room for a token. Other
// members receive whole tokens when they ask, in the order of their deficits.
//
// A member's deficit is its share of recent use minus its own use (deficit.go). It matters only
// while tokens are scarce. Under hard, members with a larger deficit and refused callers are served
// first; where the leader decides, a member that had more than its share leaves one request for each
// member that had less. Under soft, a member with a deficit gets a higher rate instead, and the level
// sent to a member that used more than its share excludes the tokens that others hold and will use.
//
// When a member gets less than its share, the ledger recalls tokens (push.go): members that hold or
// accrue more than expected report at once and return what they do not need. It pushes the returned
// tokens, in an unsolicited grant, to members whose callers wanted them within the last half interval
// (three intervals for a member without a rate). Pushed returns the recalls and these grants. Either
// may be lost: a member that is short asks again. Under soft, the ledger also recalls from members
// whose presumed use is a large part of another member's level, because a short burst looks like a
// surge.
//
// # A new leader
//
// A new leader starts each bucket from its checkpoint, or full if the range's log has no line for
// the key, and deducts what members report. It reads a line when the key is first used (Lines), so that it
// grants soon, however many keys there are. Until all live members have reported, or the learning
// time is over, it confirms the rates that members have and grants nothing new. Overdrafts of a soft
// bucket without a leader are offset by the tokens that overflowed in that time (amend).
//
// Where counts endure (quota.Limit.Endures), the checkpoint records how much of each member's
// counters is booked (durable.go, line.go), and the new leader books exactly the difference. A
// member closes a key only after its counts are committed. The counts of a dead process come from
// its journal, which the node's next process reports (Ledger.bookRecovered). For other limits, the
// new leader relies on the level that members last received and on their use since.
//
// # Why hard is exact
//
// Let E be the level of one ideal central bucket that charges every admission as it happens, V the
// tokens that a member holds and can spend at any moment, and L the tokens whose fate the ledger does
// not know. At every moment
//
//	pool + sum(V) + sum(L) <= E
//
// V is at most standing, and the ledger keeps pool + sum(standing) + sum(L) within the burst, so it
// counts no refill that would have overflowed E. L is what a rate yielded and the member neither used
// nor holds. It returns to the pool only as far as the total stayed within the burst in that time
// (overflow, allocation.exactly).
//
// The log preserves the inequality when leaders die. A checkpoint bounds what each member may use
// beyond its booked counts (promise). No leader grants more than the log has committed, and the next
// leader keeps all of it out of the pool until the member, or its journal, reports its use. The tokens
// of a member that is dead, paused, or cut off with an old leader are thus set aside. A promise covers
// about two seconds of the member's need, so steady traffic does not wait for the log. Every node has
// an implicit promise of a part of every token bucket, without a line in the log (implicit.go). The
// first use of a window waits for one commit, and so does a surge.
//
// Exact means within a hundredth of a token, for rounding, and on the leader's clock. Against true
// time, the rate is off by that clock's drift: rate x drift x time, or 3.6 tokens an hour for 10/s at
// 100 ppm. The conditions are: the log is not lost; clocks drift by less than a thousandth against
// each other; the wall clocks of nodes differ by at most MaxOffset.
//
// A new leader dates a checkpoint on its own clock, never too early (onClock). For lines that its
// replica saw committed, it noted the time itself. Lines read back, after a start or from a snapshot,
// count as younger by MaxOffset than the clocks say: the pool refills that much less, and no promise
// ends too soon. So a wrong wall clock matters only for lines read back: an offset of d, beyond
// MaxOffset, admits at most rate x (d - MaxOffset) more.
//
// Windows follow the clock of the current leader. Each window grants its limit once: a leader whose
// clock is behind does not reopen a window before the log's, and one whose clock is ahead opens none
// twice. In true time, consecutive windows overlap by the difference between two leaders' clocks.
//
// Where the leader decides (decide: leader), it makes the same promise to itself (answers.go): for
// 1.25 s it admits no more than the log allows, and the next leader keeps that amount out of the
// pool until then. The first use of a key waits for one commit, and so does a surge. A leader's death
// costs at most the tokens left in the bucket and the refill until the promise ends, or for a window,
// the promised amount.
//
// Not covered are: limits that have just become hard or been lowered, until all nodes know; charges
// after the fact that exceed the level; requests in flight, which are forgotten with their node (of one
// that is silent, a new leader keeps places free for the lease of the limit); and
// tokens of a member that pauses for a lease while it refuses connections, then continues: it counts
// as dead (Suspect), like one that crashed.
//
// # Kinds
//
// The pool is a limiter.Meter, so a bucket may be a token bucket, a window or the number of
// requests in flight: docs/rfcs/20261121_every_rule.md. When a window ends, the tokens that members
// hold from it are void (bucket.roll), and use reported late for it is not charged (delta.late).
// Members count refunds from 0 in each window, and a refund reported after the window's end raises no
// level; nor does one of a sliding window, whose use expires anyway. A request in flight is not spent:
// its place returns when it is released, or when its allocation is dead or has been silent for the
// limit's lease (bucket.recount). Tiers, parents and floors are separate buckets; members combine
// them.
//
// # Decide requests
//
// Ask decides at once from the ledger, for limits with decide: leader and for callers that wait for
// future tokens. If the answer is lost or late, the member decides alone and reports what it
// admitted. So that the request counts once, it has a name (member, incarnation, number):
//
//   - a repeated decide request gets the same answer and is not booked again;
//   - a member that gave up on a decide request, or does not use the answer, cancels it: it names
//     the request in its reports of the key until one of them is answered. The ledger reverses the
//     booking, once;
//   - a decide request that arrives after its cancellation is refused.
//
// So the ledger contains the answers that members received, and those whose fate it does not know
// yet. The member settles the outcome, since only it knows whether its caller got the answer. Asking
// again would keep the caller waiting, and a dead leader cannot answer.
//
// Counts are reversed as booked. The level is restored only as far as the tokens would still be
// there: not for a window that has ended (use of a sliding one expires anyway), not across a reset
// or a change of the limit (except one that only resizes a window), and not beyond what a full
// bucket could have held (rooms). A hard ceiling stays exact. Reserved future tokens are debt of the
// pool and are reversed in the same way; a caller whose wait is longer because of them still waits
// that long.
//
// Three bounds make this inexact. The ledger remembers a member's newest 4096 decide requests, for
// an hour after the last, and a member keeps 4096 cancelled ones of a key: beyond these, counts are
// too high by the requests that were in flight. And rooms keeps 64 moments: in a token bucket or
// sliding window that was nearly full, a reversed booking may return too little.
//
// A new leader knows no decide requests. Under soft, where counts endure, an answer moves the cost
// from the pool to the member's out, and the member reports it as use (allocation.answered). That
// changes nothing for the leader that admitted it; a new leader books it beyond the mark, like any
// other use. What the member does not report returns when it closes the key. For other limits, the
// bookings of an earlier leader stay in the level that a new one takes over, so it may count requests
// that were in flight.
package leader
