// Package forgetfs is a disk that loses power: a file system in memory that knows what was synced, and
// that [Disk.Lose] sets back to what a power failure may leave.
//
// What is not synced may be there afterwards, or not, or in part: each sector of 512 bytes of a
// written page for itself, the new size of a file with or without its content, and the changes of a
// directory up to any one of them. A sync of a file keeps its content and size, and not its name: that
// takes a sync of its directory. File systems often promise more; a program that is right here does
// not depend on it.
//
// [Mount] shows a disk to other processes, by FUSE. When its [Supply] fails, every call on the disk
// waits until [Supply.Release]; meanwhile the processes can be killed. So nothing that they did after
// that moment is on the disk, and none of them was told otherwise.
package forgetfs
