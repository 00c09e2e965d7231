// Package replica is the replicas of ranges on a node: what a range's log has made, and where this
// node leads the range, the ledger that divides its quota.
//
// # The way of a report
//
// OnReports takes a frame off the goroutine that reads the connection (reports.go). A goroutine of
// the member unpacks it and books each report in the ledger of its range (Replica.book); where somebody
// else has the ledger for long, the report waits in the backlog of that range. The answers to one
// frame leave together. A decide request goes the same way to the ledger, and waits here for the
// log where that has to know first (decide.go).
//
// # Checkpoints
//
// The levels of keys that moved are written to the range's log (checkpoint.go): all of them once in
// checkpointEvery, and what members wait for at once, in entries of its own. The log's state machine
// (machine.go, levels.go) has them on all nodes that keep the range, beside the range's accounts and
// its part of the history. From those levels the next leader makes its ledger.
//
// # Bounds
//
// Reports of a member that wait to be booked: 32 MiB of frames, and as much in backlogs of busy
// ranges; what finds no room is dropped, and reported again. A checkpoint holds at most 4096 levels and
// 4 MiB (leader.MaxCheckpoint), a part of a range's snapshot 4096 and 16 MiB.
//
// # Locks
//
// A ledger has a mutex of its own, Replica.mu; a checkpoint that is being written holds Replica.saving,
// which is locked before it. Nothing here is called by a Node under a lock of a replica, except where
// its documentation says so.
package replica
