package raftgroup

// FreeSpace returns the bytes that this process may still write on the file system of dir. The error
// is [errors.ErrUnsupported] on a platform that does not say.
func FreeSpace(dir string) (uint64, error) { return freeSpace(dir) }
