// Package forgetfs is a disk that loses power: a file system in memory that knows what was synced, and
// that [Disk.Lose] sets back to what a power failure may leave.
//
// Changes that were not synced may survive, wholly, in part or not at all: each sector of 512 bytes of a
// written page by itself, the new size of a file with or without its content, and the changes of a
// directory up to any one of them. Syncing a file keeps its content and size, but not its name: that
// takes a sync of its directory. File systems often promise more; a program that is correct here does
// not depend on that.
//
// [Mount] shows a disk to other processes, by FUSE. When its [Supply] fails, every call on the disk
// waits until [Supply.Release]; until then the processes can be killed. So the disk keeps nothing
// that they did after that moment, and no call of that time returns success.
package forgetfs
