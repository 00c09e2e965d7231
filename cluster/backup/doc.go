// Package backup takes, inspects and restores backups of a cluster.
//
// A [Service] makes the leaders of all groups keep copies of the same moment and writes them to a
// file ([Service.Take] explains why they are consistent). [Inspect] reads a backup as a node would,
// and [Restore] creates the data directory of a new cluster from it. A backup is a single file,
// written and read in one pass, and checksums cover every byte.
//
// # Format
//
// A file is the line [Magic], followed by blocks. A block is
//
//	kind      1 byte
//	length    4 bytes, big-endian: of the content
//	content   at most 256 KiB; 1 MiB of JSON
//	checksum  4 bytes, big-endian: CRC-32C of the block's number (8 bytes), kind, length and content
//
// and the blocks are, in this order:
//
//	H  the head, JSON: see Head
//	G  start of a group, JSON: name, index, term      once for meta, then for each range
//	D  a piece of its snapshot, never empty            any number
//	E  end of the group, JSON: size and SHA-256 of all pieces
//	M  the manifest, JSON: see Manifest
//	S  the seal: SHA-256 of all bytes of the file before this block
//
// The file ends after the seal. The groups are "meta", "range-000", "range-001" and
// so on, as many ranges as the head says, each once and in this order.
//
// # Why not tar
//
// Tar needs a member's size before its content. The size of a snapshot is known only after it
// has been written, so each snapshot would first need room on a disk, which may
// not have it; here a snapshot streams from the leader's memory to the
// operator's file. Tar has bytes without meaning (padding, owners, bytes after
// its end), so a damaged file may still pass as whole. And unpacking
// an archive by hand makes it possible to assemble a state that no cluster ever had.
//
// The manifest comes last because the sizes and sums are known only then. The head has what a
// reader needs first: the cluster and the number of ranges. The
// checksum of a block locates damage, and the block number in it detects
// doubled, missing and moved blocks. The sum of a group can be compared
// with that of another backup. The seal ties all blocks together into one file.
//
// # Guarantees
//
// A [Reader] that returns [io.EOF] has read exactly what a [Writer] wrote, completely.
// Any other file yields a [*FormatError] with the place and the reason: cut off, damaged,
// out of order, missing, doubled, of another format. A Reader never panics, and needs
// memory for one block. The checksums detect faults but not forgery: an attacker who can write the
// file can write a different valid one.
package backup
