// Package leader is the ledger of one range: reports in, grants and rates out.
//
// It is pure. The caller passes the time, owns the concurrency (one Ledger is
// used by one goroutine at a time) and carries the messages.
//
// # What it keeps
//
// For each key an account: the free pool (an exact token bucket, debt below
// zero) and for each member a holder. A holder's out is every token that was
// handed to the member and is not known to be spent: held there, on its way
// there, or spent since its last report. Tokens leave the pool when they are
// granted, so
//
//	pool + sum(out) changes only by refill and by what members say they used
//
// holds after every step, whatever messages are lost. A report settles the
// holder: what neither was used nor is held nor can still arrive goes back to
// the pool.
//
// # Rates
//
// A member's refill rate is taken from the pool's as time passes. A rate that
// was cut stays charged until the member has acknowledged the cut (or its
// lease has ended), and the charged rates never exceed the limit's: two members
// never accrue the same token. Accrual stops at the grant's cap. For hard
// limits the caps add up to at most the burst. That makes the hard ceiling
// exact: what can be spent at one moment never exceeds the burst, and what can
// be spent over time never exceeds burst + rate x time.
//
// # Division
//
// Max-min fair by demand (attempts per second, averaged over three sync
// intervals, up at once on a surge and down at once on silence): a flood of
// refused requests cannot buy more than its fair share. Debt is repaid within
// about half a second by dividing less. Shares that would be less than one
// token per interval are not given as a rate: whole tokens go to whoever asks.
//
// # A new leader
//
// It starts every account from the checkpoint (or from a full bucket, if the
// range's log knows no debt of the key) and lowers it by what members report:
// the level that they were last told, and what they used since. Until every
// live member has spoken it echoes the rates that members have and grants
// nothing new.
//
// # Where hard is not exact yet
//
// A leader dies together with its member: what that member spent since its last
// report counts as free, since the level that others were told includes it. That
// is part of one burst, once.
//
// Delays vary: what overflowed at a member while the key was full may count as
// still to come, up to the rate times the spread of the delays.
//
// A member that hears from nobody spends what it holds until it next looks at
// its clock, up to three sync intervals after its lease.
//
// # Kinds
//
// The pool is a limiter.Meter, so an account may be a bucket, a window or what
// is in flight: docs/rfcs/20261121_every_rule.md. When a window ends, what
// members hold of it is void (account.turn), and use that is reported later and
// belongs to it is charged to nothing (delta.late). What is in flight is not
// spent: it comes back when it is released, or when its holder is dead or has
// been silent for the limit's lease (account.recount). Tiers, parents and floors
// are accounts of their own: members put them together.
//
// # Questions
//
// Ask decides on the books at once, for limits that their leader decides and
// for callers that wait for tokens to come. An answer may be lost or come too
// late; the member decides alone then, and reports what it admitted. So that the
// same request is not counted twice, a question has a name (member, incarnation,
// number), and
//
//   - a question that is repeated gets the same answer and is not booked again;
//   - a member that gave up on a question, or has no use for the answer, names it
//     in its reports of the key until one of them is answered: it has abandoned
//     it. The ledger takes back what it has booked for it, once;
//   - a question that arrives after it was abandoned is refused.
//
// So what is booked is what members were told, and what they do not know yet. It
// is the member that decides what became of a question, since it alone knows
// whether a caller has heard the answer; to ask again instead would keep the
// caller waiting, and a leader that is gone cannot be asked.
//
// Counts come back as they were booked. The level comes back as far as it would
// still be there: not of a window that has ended (of a sliding one it flows back
// anyway), not from before a reset or a change of the limit, and of what a full
// level could not have gained, nothing (rooms). A hard ceiling stays exact.
// Tokens to come are a debt of the pool, and come back in the same way; whoever
// was told a later time meanwhile waits that long.
//
// What is not exact: the ledger knows the newest 4096 questions of a member, for
// an hour after its last; a member keeps 4096 abandoned ones of a key. And a new
// leader knows none: what an earlier one booked stays in the level that it has
// taken over. The counts are too high then, by the questions that were under way.
package leader
