// Package backup makes, reads and restores backups of a cluster.
//
// A [Service] has the leaders of all groups keep copies as of one moment and writes them
// ([Service.Take] says why they are consistent). [Inspect] reads a backup as a node would, and
// [Restore] makes the data directory of a new cluster from one. A backup is one file, written and
// read in one pass, in which every byte is covered by a checksum.
//
// # Form
//
// A file is the line [Magic] and blocks. A block is
//
//	kind      1 byte
//	length    4 bytes, big-endian: of the content
//	content   at most 256 KiB; 1 MiB of JSON
//	checksum  4 bytes, big-endian: CRC-32C of the block's number (8 bytes), kind, length and content
//
// and the blocks are, in this order:
//
//	H  the head, JSON: see Head
//	G  a group begins, JSON: name, index, term        once for meta, then for each range
//	D  a piece of its snapshot, never empty            any number
//	E  the group ends, JSON: size and SHA-256 of all pieces
//	M  the manifest, JSON: see Manifest
//	S  the seal: SHA-256 of all bytes of the file before this block
//
// Behind the seal the file ends. The groups are "meta", "range-000", "range-001" and
// so on, as many ranges as the head says, each once and in this order.
//
// # Why not tar
//
// Tar wants a member's size before its content. A snapshot's size is known when it
// has been written, so each would have to be kept on a disk first, which need
// not have room for it; here a snapshot goes from the leader's memory to the
// operator's file. Tar leaves bytes that mean nothing (padding, owners, what follows
// its end), so that a damaged file may still pass for a whole one; and who unpacks
// an archive by hand can put together a state that no cluster had.
//
// The manifest is last, since only then the sizes and sums are known; what a reader has
// to know first, whose backup it is and how many ranges follow, is in the head. The
// checksum of each block says at which place a file is damaged, and its number that
// blocks were doubled, left out or moved; the sum of a group is what can be compared
// with another backup's; the seal is what makes it one file.
//
// # What is promised
//
// A [Reader] that has come to [io.EOF] has read exactly what a [Writer] has written,
// whole. All else is a [*FormatError], with the place and the reason: cut off, damaged,
// out of order, missing, doubled, of another format. It never panics, and needs
// memory for one block. The checksums find faults, not forgers: who can write the file
// can write another one.
package backup
