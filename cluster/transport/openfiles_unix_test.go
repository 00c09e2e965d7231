//go:build unix

package transport

import (
	"math"
	"syscall"
)

// openFiles returns how many files and connections the process may have open.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxUint64
	}
	return limit.Cur
}
