// Package aggregator is a member's table of keys. It decides checks from memory, counts them, batches the reports,
// applies the grants, and decides without a leader while the member is cut off.
//
// # Request path
//
// A limit with one token bucket is the common case: TryHeld and TrySimple look up the limit and the key's hot entry,
// and subtract the cost from the held tokens: one map lookup and one compare-and-swap. While tokens are held, this
// takes no lock, allocates nothing and reads no clock. Otherwise, and for kinds with windows, the aggregator locks
// this one bucket, reads the clock through the function that the caller passed, and decides (decide.go):
//
//	the leader decides, or     ask the leader (reserved, leader)
//	callers wait for tokens
//	held >= cost               take it (held)
//	soft, estimate >= cost     take held tokens, and the rest as overdraft (estimate)
//	otherwise                  refuse (over_limit, not_held, failover)
//
// Held tokens are part of the estimate, so they are spent first. A grant made before the leader knew of an overdraft
// pays for it, as far as the grant exceeds the estimate (repay).
//
// The estimate is the level that the leader reported last, minus the others' probable unseen use, plus refill, minus
// the others' demand, minus own use since. The others' demand is valid for three reporting intervals. A key that has
// been idle here for longer than that since its last grant continues without it, and may overdraw only a quarter of
// its part before it asks. If the next grant would settle a decision, the decision asks for it (Call.Need): under soft
// when this node has overdrawn its part, and under both ceilings when only the others' presumed use prevents the
// admission. After a whole lease without a leader, the limit's when_cut_off decides (alone.go).
//
// Everything else is a Call (call.go): several limits that must all pass. Each charges its tiers, its floor and its
// parents in turn; if one refuses, all charges are undone. A Call that cannot be decided yet reports its need, a
// grant or a leader's answer, and its caller decides it again.
//
// # Reports and grants
//
// One goroutine at a time calls Collect (returns the reports that are due), Apply (applies a grant), SetLeader,
// SetLimits and Sweep. An open key is on a timing wheel, whose slots are eighths of a sync interval. A key that
// opens, or that runs low while the cluster has tokens, goes onto a lock-free stack and is reported at once. So is a key
// with more use than the leader expects, by three standard deviations, or more overdraft than this node's part. So is
// a recalled key: if it is in use, it keeps what it needs for a round trip; otherwise it stops, and returns its tokens
// and its rate.
//
// A calm key is reported only once, when it closes (calm.go): a soft token bucket that is rarely used and far below its
// limit.
//
// An unused key keeps its tokens while the cluster has more: under soft for three intervals, under hard until it
// closes or is recalled. When nothing is left elsewhere, it stops at once.
//
// Counters are cumulative within an epoch (one opening of a key). An unacknowledged report is repeated with the
// current counters, so nothing is lost or counted twice: first after a quarter of a sync interval, then with
// exponential backoff up to three intervals, but not before four round trips (or a lease, if that is less); and at
// once when a recall arrives while an answer is overdue.
//
// Of soft limits whose counts endure, what the leader admits is counted as own use when the call is decided, so that
// reports take it to the next leader (Answer.Report).
//
// A decide request whose answer is not used (it came too late, or never, or another limit refused the call) is
// cancelled: reports of the key name it until they are answered, and the leader takes back what it booked. So code
// that asks a leader for a Call either passes the answer to the Call, or calls Cancel.
//
// # Clocks
//
// Rates run in the leader's time. The member bounds the difference between the two clocks (clockOffset): a grant was
// made before it arrived, and after the report that it answers was sent. Rates follow the upper bound, so the member
// never accrues early. Windows of hard limits end by the lower one, so none ends late.
//
// # Keys that are not in use
//
// A key that is closed and at rest (nothing held, in flight, allocated, cancelled or left to report) needs no bucket.
// Five seconds later, Sweep packs its state (packed.go) into a compact record without pointers (compact.go), about 60
// bytes plus the key's name. Code that needs the bucket restores it under the lock of its shard of the table: to
// charge it, to read it, or to change its override. A change of limits is applied to records in place. A compact key
// counts as a key everywhere, and no answer shows whether a key is compact: TestCompactAsWhole compares with a member
// that compacts nothing.
//
// # Bounds
//
// The table has at most MaxKeys keys, compact or not. Each of 64 shards holds at most 32 MiB of compact records, and
// none with a name of more than about 1800 bytes: the other keys stay buckets. An unused key returns its tokens, and is
// dropped when it has been idle for Idle and its estimate is full again. When the table is nearly full, it drops the
// longest idle keys of limits that have about their share or more (quota.Limits.Share). Half of the last sixteenth is
// reserved for limits below their share, the other half is for all (quota.HasRoom). Keys without room share one bucket
// of their limit, overflowKey, which takes no place. Keys of concurrency limits, and keys beyond the max_keys of a hard
// limit, do not share it: their decision is too_many_keys.
package aggregator
