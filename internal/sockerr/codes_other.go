//go:build !windows

package sockerr

import "syscall"

var (
	refused = []syscall.Errno{syscall.ECONNREFUSED}
	reset   = []syscall.Errno{syscall.ECONNRESET, syscall.EPIPE}
	inUse   = []syscall.Errno{syscall.EADDRINUSE}
	foreign = []syscall.Errno{syscall.EADDRNOTAVAIL}
)
