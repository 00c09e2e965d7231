package journal

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate reserves disk space for part of the file and keeps its content.
func allocate(f *os.File, from int64, size int) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, from, int64(size))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP):
			return fill(f, from, size)
		}
		return err
	}
}
