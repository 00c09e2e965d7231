// Package sockerr recognizes errors of sockets on every system. Windows reports codes of its own,
// which errors.Is does not match with the constants of package syscall.
package sockerr

import (
	"errors"
	"slices"
	"syscall"
)

// Refused reports whether the other side refused a connection: nothing listens at its address.
func Refused(err error) bool { return is(err, refused) }

// Reset reports whether the other side ended a connection.
func Reset(err error) bool { return is(err, reset) }

// InUse reports whether another socket has the address.
func InUse(err error) bool { return is(err, inUse) }

// NotLocal reports whether a socket was opened at an address that this machine does not have.
func NotLocal(err error) bool { return is(err, foreign) }

func is(err error, codes []syscall.Errno) bool {
	code, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains(codes, code)
}
