//go:build !linux

package journal

import "os"

// allocate makes the disk keep room for part of the file; what it holds stays.
func allocate(f *os.File, from int64, size int) error { return fill(f, from, size) }
