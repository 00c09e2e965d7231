//go:build unix

package journal

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapShared maps part of a file into memory. from and size must be multiples of the page size.
func mapShared(f *os.File, from int64, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), from, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func unmap(b []byte) { _ = unix.Munmap(b) } // the only possible error is that it is not mapped
