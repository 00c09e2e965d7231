//go:build !linux

package journal

import "os"

// allocate reserves disk space for part of the file and keeps its content.
func allocate(f *os.File, from int64, size int) error { return fill(f, from, size) }
