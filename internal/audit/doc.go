// Package audit writes the audit log: one JSON object per change or attempt and line, in
// rotated files. A call that failed and may have changed something counts as a change.
//
// What is written is whole: an [Entry] goes to the file with one write, and is in
// the kernel's hands when [Log.Write] returns. A machine that loses power may lose
// the last seconds.
//
// A log that cannot be written stops nothing: the change goes on, the entry is
// counted as lost ([Log.Lost]), and the program's own log says so once until
// writing works again. Refusing changes instead would make a full disk one that
// nobody can repair through the API.
//
// Changes and attempts are in separate files ([AttemptsPath]), so that callers without permissions
// cannot push changes out of the files. Attempts are rate-limited too: per identity, or per address
// if the identity is not proven, [attemptBurstOne] at once and [attemptRateOne] per second; in total
// [attemptBurst] and [attemptRate]. The next entry reports how many were not written.
//
// Bounds: 2 KiB per text of an entry, 128 bytes per request id. [Options] bounds the size and number
// of files.
package audit
