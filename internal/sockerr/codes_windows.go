package sockerr

import "syscall"

// The numbers are from winsock2.h.
var (
	refused = []syscall.Errno{10061, syscall.ECONNREFUSED}
	reset   = []syscall.Errno{syscall.WSAECONNRESET, syscall.WSAECONNABORTED, syscall.ERROR_BROKEN_PIPE}
	inUse   = []syscall.Errno{10048}
	foreign = []syscall.Errno{10049}
)
