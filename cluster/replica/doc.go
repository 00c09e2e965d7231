// Package replica implements a node's replicas of ranges: the state that a range's log produces and,
// while this node leads the range, the ledger that divides its quota.
//
// # Path of a report
//
// OnReports takes a frame off the goroutine that reads the connection (reports.go). A goroutine per
// member unpacks it and books each report in the ledger of its range (Replica.book). If the ledger is
// locked, the report waits in the backlog of that range. The answers to one frame leave together. A
// decide request reaches the ledger the same way. If the log must have its result first, it waits here
// for the log (decide.go).
//
// # Checkpoints
//
// Changed levels of keys are written to the range's log (checkpoint.go): once per checkpointEvery those
// that changed by enough to matter to the next leader, within ten seconds the others (leader's deviation.go
// says which), and at once those that members wait for, in entries of their own. The state machine
// of the log (machine.go, levels.go) holds them on all nodes that keep the range, next to the range's
// accounts and its part of the history. The next leader builds its ledger from those levels.
//
// # Bounds
//
// Reports of a member that wait to be booked take up to 32 MiB as frames, and as much again in the
// backlogs of busy ranges. Reports beyond that are dropped, and the member reports again. A checkpoint
// holds at most 4096 levels and 4 MiB (leader.MaxCheckpoint); a part of a range's snapshot holds at most
// 4096 levels and 16 MiB.
//
// # Locks
//
// Replica.mu guards the ledger. Replica.saving is held while a checkpoint is written, and is locked
// before Replica.mu. A method of Node that is called with a replica's lock held must not call back into
// this package, except where the documentation allows it.
package replica
