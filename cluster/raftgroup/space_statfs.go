//go:build linux || darwin

package raftgroup

import "syscall"

// freeSpace returns the bytes that are free to this process. A variable, so that
// tests may fill the disk.
var freeSpace = func(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}
