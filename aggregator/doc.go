// Package aggregator is a member's table of keys: the local decision, the
// counting, the batching of reports and what happens without a leader.
//
// # Request path
//
// A limit with one token bucket is the common case: Allow and Check find the
// limit, find the key's bucket and subtract the cost from what it holds: one map
// lookup and one compare-and-swap. That takes no lock, allocates nothing and
// reads no clock while tokens are held. Only when the bucket looks empty, or is
// for a window, is that one key locked, the clock read through the function that
// the caller passed, and decided (decide.go):
//
//	the leader decides, or     ask the leader (reserved, leader)
//	callers wait for tokens
//	held >= cost               take it (held)
//	soft, estimate >= cost     take what is held, and the rest as overdraft (estimate)
//	otherwise                  refuse (over_limit, not_held, failover)
//
// What is held is a part of the estimate, so what comes first is spent first; and a grant
// that was made before an overdraft was known pays for it, where it is more than is left.
//
// The estimate is the global level that the leader reported last, less what the
// others had probably used unseen, plus refill, less the others' demand, less own
// use since. The others' demand is believed for three intervals of reporting; a
// key that was idle here for longer than that since its last grant continues
// without it, and may overdraw only a quarter of its part before it asks. Where a
// grant would settle it, a decision may report that it needs one (Call.Need):
// under soft when this node has overdrawn its part, and for both ceilings when
// only the others' presumed use stands against the cost. Without a leader for a
// whole lease the limit's when_cut_off decides (alone.go).
//
// Everything else is a Call (call.go): limits that must all pass, each charging
// its tiers, its floor and its parents in turn; what was taken is given back if
// one refuses. A Call that cannot be decided yet reports what it needs, a grant
// or a leader's answer, and its caller decides it again.
//
// # Reports and grants
//
// One goroutine at a time calls Collect (what to send now), Apply (a grant
// came), SetLeader, SetLimits and Sweep. An open key is on a timing wheel with
// limit entries of one sync interval; a key that opens, or runs low while the cluster
// has tokens left, is put on a lock-free stack and reported at once. So is a
// surprise: more use than three standard deviations beyond what the leader
// foresees, or more overdraft than this node's part. And what a leader recalls: the
// key reports at once and keeps what it needs for a round trip, or stops, giving
// back tokens and rate, if nobody asks for it.
//
// While nobody asks, a key keeps what it holds as long as the cluster has more:
// under soft for three intervals, under hard until it closes or is recalled. When
// nothing is left elsewhere it stops at once.
//
// Counters are cumulative within an epoch (one opening of a key). A report
// that is not acknowledged is sent again with the counters of then, so nothing
// is lost and nothing counted twice: after a quarter of a sync interval, then twice as
// long each time, at most three intervals; but never sooner than after four round trips,
// or a lease if that is less; and at once when a recall comes although an answer is overdue.
//
// A decide request to a leader whose answer is not used (it came too late, or never, or
// the call was refused by another limit) is cancelled: reports of the key name it
// until they are answered, and the leader takes back what it booked. So code that
// asks a leader for a Call either gives the Call the answer, or calls Abandon.
//
// # Clocks
//
// Rates run in the leader's time. The member maps it to its own clock by the
// smallest difference it has seen, so that its view of the leader's clock lags
// and it never accrues early. Windows of hard limits end early by as much as that
// view may be late: the shortest round trip.
//
// # Keys that are not in use
//
// A key that is closed and at rest (nothing held, in flight, allocated, cancelled or waiting
// to be said) needs no bucket: five seconds later Sweep compacts it (packed state.go) into a record without pointers
// (cold.go), of some 60 bytes and its name. Code that needs its bucket restores it, under the lock of its part
// of the table: to charge it, to look at it, and to change its override. A change of limits is applied to
// records in place. A compact key counts as a key everywhere; no answer shows whether one is compact, which
// TestCompactAsWhole holds to a member that compacts none.
//
// # Bounds
//
// At most MaxKeys keys, compact or not. Of those at most 32 MiB in each of 64 parts are
// compact, and none whose name is longer than about 1800 bytes: the others stay buckets. A key that nobody used for a while lets go of its
// tokens, and is dropped when it has been idle for Idle and its estimate is
// full again; when the table is nearly full, the longest idle go first, of limits that
// have about their share or more (quota.Limits.Share). Of the last sixteenth one half is for
// limits that have less than theirs, and the other is divided among all (quota.HasRoom). Keys
// for which there is no room share one bucket of their limit, overflowKey, which takes no place.
// Those of what is in flight, and those beyond the max_keys of a hard limit, do not: the decision
// says too_many_keys.
package aggregator
