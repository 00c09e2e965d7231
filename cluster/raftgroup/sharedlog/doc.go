// Package sharedlog keeps the Raft logs of all groups of a node in one file, and syncs the appends
// of all of them together.
//
// # The file
//
// The file is a store of raft-boltdb/v2. Its keys are 64 bits: the number of a group stands above
// the index of an entry, so the entries of a group lie side by side. The highest bit marks the
// values that a group must keep beside its log: its term, its vote, and the mark of a deletion. They
// are entries as well, so that one transaction holds appends and votes of any groups. Each entry
// ends with a checksum over what it holds and over its key.
//
// # Commits
//
// One goroutine writes. It takes what all groups have asked for since the last transaction, one
// call of each group in turns, at most 4 MiB, into one transaction, and answers the callers when
// that is synced. With one caller, a call is a transaction; with many, they share. Deletions are
// done in pieces of 512 entries between the batches, so appends wait for one piece at most. A
// piece leaves a log without a gap: a prefix goes from its beginning, the end of a log from its
// end.
//
// # Faults
//
// The first failed write fails the whole log: all calls that wait and all later ones. What the
// failed transaction left may be readable and yet not on the disk, so [Log.Reopen] first goes back
// to the last transaction that was acknowledged, then reads the file again, and compares what it
// holds with what was acknowledged.
//
// [Open] refuses a file with a damaged page, an entry with a wrong checksum, or a gap. It cannot
// see two kinds of damage. If the newer of the two meta pages was damaged after it was written, the
// last transaction is missing; a crash in the middle of a commit looks the same. If the number of a
// page was damaged and is now that of a page of an earlier transaction, what came later is missing.
package sharedlog
