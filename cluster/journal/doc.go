// Package journal protects the counts that a member has made on durable keys, and that no
// checkpoint holds yet, from the death of the process.
//
// The journal is one file in the node's data directory, mapped into memory. A write is a store to
// memory: no lock, no system call, a few nanoseconds. The written data is in the page cache, which
// belongs to the kernel: kill -9, a panic and the out-of-memory killer lose nothing. Power loss and
// a kernel crash may lose data that the kernel had not written back, about the last half minute;
// the journal does not sync writes.
//
// # File
//
// The file uses the machine's byte order, since it never leaves the machine.
//
//	header, 4096 bytes   magic, version, sizes, cluster, node and their check;
//	                     incarnation of the last process that opened it, steps;
//	                     boot of the machine, closed, missed, last broken
//	steps of 1024 slots  512 bytes each: owner (key, incarnation, epoch) and two halves
//
// A slot is in use if its ID is not 0. The ID is a hash of the slot's owner; it is stored last when
// a slot is claimed and cleared first when it is released. Each half holds one state of the counts,
// a sequence number, and a check over both and the ID, stored last. A write goes to the older half:
// at whatever instruction the process dies, one half is whole. A reader takes the newest whole
// half. So a slot in use without a whole half is damaged; a crash never causes that.
//
// # Incarnations
//
// A slot records the incarnation of the process that counted it. Open takes over the slots in use as they
// are and hands them to the leaders again until these have committed them; new counts go to free
// slots. Nothing is copied or moved, so a process that dies during the takeover loses nothing,
// however often that happens: one file can hold the counts of several earlier processes.
//
// # Whole or broken
//
// A leader that knows nothing about a key must set aside what a dead process may have used of it
// without reporting it. [Journal.Known] rules that out: the journal of the last process exists,
// dates from the same boot of the machine or was closed cleanly, and had a slot for every key. The
// header records since when that has been so, over any number of processes; Open and Close sync it.
//
// # Damage
//
// A file that is truncated, belongs to another node, has another version, or fails a check is moved
// aside as counts.journal.corrupt (only the newest such file is kept). Its whole slots go to a new
// file, unless it belongs to another node or has another version. The error describes what was
// wrong.
//
// # Bounds
//
// A journal holds at most MaxSlots keys and takes at most 32 MiB of disk. The file grows one step
// at a time, in the background, before the last step is used up. Blocks are allocated, not left
// sparse: a store to a page for which the disk has no room would kill the process. If there is no
// room, or beyond MaxSlots, new keys are not journalled; neither are keys whose namespace, limit
// and key have more than 368 bytes together. Both are counted. The file never shrinks.
package journal
