// Package history is what was asked of every limit, second by second, so that a
// planner can look back: docs/rfcs/20261122_history.md.
//
// It is pure. The caller passes the time and carries the messages.
//
// # Who stores what
//
// Each limit has an owner range, by the hash of its name. Every process counts, for
// each limit and second, what it decided as a member and what it measured as a leader
// ([Tally]). When a time slot of ten seconds is over, it uploads the slot to the leaders
// of the owner ranges, in one message for each slot and range, also when nothing
// happened ([Upload]), and repeats that until the range's log has it. The leader collects
// a slot until every process that lived in it has uploaded it, or has been waited for
// long enough ([Collector]), and writes one line into the range's log ([Line]). Every
// replica adds up lines ([Recent]) and stores the sums.
//
// # Why it is exact
//
// A process and a slot name an upload. A line names the uploads that are in it, and a
// replica adds no upload twice, whoever wrote the line: all replicas apply the same
// lines in the same order, so leaders may repeat themselves and members may upload to
// two leaders. What is in a sum is therefore in it once.
//
// A slot is complete when every process that the leader saw alive in it has uploaded it.
// A process that is killed does not upload its last slot, and is named as missing in
// it. A late upload completes a slot as long as the slot is open to additions
// (MaxBehind). A new leader did not see who lived before it: it goes by the last line of
// the log, and by the processes that others say they first saw since. It cannot know of
// a process that started since and was killed with all that saw it.
//
// # Bounds
//
// A process holds an hour of slots that no leader has accepted, and at most 100,000
// slices (Tally). A collector holds at most MaxBehind slots. A replica holds the slots
// of the last hour and a little more in memory, packed.
package history
