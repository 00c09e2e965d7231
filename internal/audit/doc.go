// Package audit writes the audit log: one JSON object per line for each change or attempt, in
// rotated files. A call that failed but may have changed something counts as a change.
//
// Each [Entry] is written with one write call, so lines are complete, and the kernel has it when
// [Log.Write] returns. A power failure may lose the last seconds.
//
// If the log cannot be written, changes are still made: the entry counts as lost ([Log.Lost]), and
// the program's own log reports the problem once until writing works again. If changes were refused
// instead, nobody could fix a full disk through the API.
//
// Changes and attempts are in separate files ([AttemptsPath]), so that callers without permissions
// cannot push changes out of the files. Attempts are also rate-limited: per identity, or per
// address if the identity is not authenticated, to [attemptRateOne] per second with a burst of
// [attemptBurstOne]; in total to [attemptRate] with a burst of [attemptBurst]. The next entry
// reports how many were not written.
//
// Bounds: 2 KiB for each text of an entry, 128 bytes for a request ID. [Options] bounds the size
// and number of files.
package audit
