//go:build linux || darwin

package raftgroup

import "syscall"

// freeSpace returns the bytes available to this process. It is a variable so that tests can
// simulate a full disk.
var freeSpace = func(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}
