// Package journal keeps what a member has counted on durable keys, and no
// checkpoint holds yet, where the death of the process does not lose it.
//
// It is one file in the node's data directory, mapped into memory. Writing to
// it is writing to memory: no lock, no system call, a few nanoseconds. What was
// written is in the page cache, which is the kernel's: kill -9, a panic and the
// out-of-memory killer lose nothing. Power loss and a crash of the kernel may
// lose what the kernel had not written back, about the last half a minute;
// nothing is synced.
//
// # File
//
// In the byte order of the machine, since it never leaves it.
//
//	header, 4096 bytes   magic, version, sizes, cluster, node and their check;
//	                     life of the last process that opened it, steps; start of
//	                     the machine, closed, missed, and when it was last broken
//	steps of 1024 slots  512 bytes each: who (key, life, birth) and two halves
//
// A slot is in use if its id is not 0. The id is a hash of who the slot is for,
// stored last when a slot is taken and cleared first when it is given back.
// Each half holds one state of the counts, a sequence number, and a check over
// both and the id, stored last. A write goes to the half that is not the newest:
// whatever instruction is the last one, one half is whole. A reader takes the
// newest whole half. So a slot in use without one is damage, never a crash.
//
// # Lives
//
// A slot says in which life of the process it was counted. Open takes the slots
// that are in use over, as they are, and gives them to the leaders again until
// they have committed them; new counts go to free slots. Nothing is copied
// or moved, so a process that dies while it takes over loses nothing, however
// often: several earlier lives lie side by side in the one file.
//
// # Whole or not
//
// A leader that knows nothing of a key has to set aside what a process may have used
// of it that died before it told. [Journal.Known] says that there is no such thing:
// the journal of the last process is here, of the same start of the machine or closed
// in order, and had a slot for every key. The header says since when that has been so,
// over any number of processes; it is synced at Open and at Close.
//
// # Damage
//
// A file that is truncated, of another node, of another version, or that fails a
// check is moved aside as counts.journal.corrupt (one is kept, the newest). The
// slots of it that are whole go to a new file; of another node's or version's
// file none does. The error says what was wrong.
//
// # Bounds
//
// At most MaxSlots keys, 32 MiB of disk. The file grows a step at a time, in the
// background, before the last one is used up. Blocks are allocated, not left
// sparse: a store to a page that the disk has no room for would end the
// process. Without room, and beyond MaxSlots, new keys are not journalled, which
// is counted; as are those whose namespace, limit and key are longer than 368
// bytes together. The file never shrinks.
package journal
