// Package history records how much of every limit was requested, second by second, so that a planner can
// look back: docs/rfcs/20261122_history.md.
//
// The package is pure. The caller supplies the time and carries the messages.
//
// # Who stores what
//
// Each limit has an owner range, chosen by the hash of its name. Every process counts, per limit and
// second, its decisions as a member and its measurements as a leader ([Tally]). When a time slot of ten
// seconds has ended, the process uploads it to the leaders of the owner ranges: one message for each slot
// and range, even if nothing happened ([Upload]). It repeats the upload until the range's log has it. The
// leader waits until every process that lived in the slot has uploaded it, or the wait has been long
// enough ([Collector]). Then it writes one line into the range's log ([Line]). Every replica sums the
// lines ([Recent]) and stores the sums.
//
// # Why it is exact
//
// A process and a slot identify an upload. A line names the uploads in it, and a replica adds no upload
// twice, whichever leader wrote the line. All replicas apply the same lines in the same order, so leaders
// may repeat themselves, and members may upload to two leaders. A sum therefore contains each upload at
// most once.
//
// A slot is complete when every process that the leader saw alive in it has uploaded it. A killed process
// does not upload its last slot; the slot names it as missing. A late upload completes a slot while the
// slot is open to additions (MaxBehind). A new leader did not see which processes lived before its term.
// It relies on the last line of the log, and on the processes that others report as first seen since. It
// cannot know of a process that started since and was killed together with all that saw it.
//
// # Bounds
//
// A process holds an hour of slots that no leader has accepted, and at most 100,000 slices (Tally). A
// collector holds at most MaxBehind slots. A replica holds the slots of a little more than the last hour
// in memory, packed.
package history
