// Package audit writes down who changed what: one JSON object per line, in a file
// that is rotated.
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
// Denied attempts are written too, so a stranger could fill the files and push out
// what matters; of those only [deniedBurst] at once and [deniedRate] a second are
// written, and the next one says how many were not.
//
// Bounds: a text of an entry 2 KiB; a file, and how many are kept: [Options].
package audit
