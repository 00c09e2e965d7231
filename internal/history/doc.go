// Package history is what was asked of every limit, second by second, so that a
// planner can look back: docs/rfcs/20261122_history.md.
//
// It is pure. The caller passes the time and carries the messages.
//
// # Who keeps what
//
// Each limit has a home: a range, by the hash of its name. Every process counts, for
// each limit and second, what it decided as a member and what it found as a leader
// (Book). When a block of ten seconds is over it tells the leaders of the limits'
// homes, in one message for each block and range, also when there was nothing
// (Told), and again until the home's log has it. The leader gathers a block until
// every process that lived in it has spoken, or has been waited for long enough
// (Collector), and writes one line into the range's log (Line). Every replica
// adds up lines (Kept) and stores what comes of it.
//
// # Why it is exact
//
// (process, block) names what was told. A line names those whose telling is in it,
// and a replica takes no telling twice, whoever wrote the line: all replicas apply
// the same lines in the same order, so leaders may repeat themselves and members may
// tell two leaders. What is in a sum is therefore in it once.
//
// A block is complete when every process that the leader saw alive in it has told. A
// process that was killed tells nothing of its last block, and is named as missing in
// it. What comes late completes a block as long as it is open to additions (MaxBehind).
// A new leader did not see who lived before it: it goes by the last line of the log, and by
// what processes tell of those that they first saw since. It cannot know of a process
// that started since and was killed with all that saw it.
//
// # Bounds
//
// A process keeps an hour of blocks that no leader took, and at most 100,000 slices
// (Book). A collector gathers at most MaxBehind blocks. A replica keeps the blocks of
// the last hour and a little in memory, packed.
package history
