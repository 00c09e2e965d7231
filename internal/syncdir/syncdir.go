// Package syncdir makes the names of files durable, and replaces files atomically. A file whose content
// was synced can still be missing after a power cut, until the directory that names it is synced too.
package syncdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// observer is called with each directory that was synced; only tests set it.
var observer atomic.Pointer[func(dir string)]

// Observe calls f after each sync of a directory, until the returned function is called. It is
// for tests.
func Observe(f func(dir string)) (stop func()) {
	observer.Store(&f)
	return func() { observer.Store(nil) }
}

// Sync makes the names in a directory durable. It ignores file systems that cannot sync
// directories, and does nothing on Windows, where a directory cannot be synced and NTFS journals its
// names.
func Sync(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	if err = errors.Join(err, d.Close()); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	if f := observer.Load(); f != nil {
		(*f)(filepath.Clean(dir))
	}
	return nil
}

// MkdirAll creates a directory and its missing parents, and makes the names of all that it creates
// durable.
func MkdirAll(dir string, mode os.FileMode) error {
	dir = filepath.Clean(dir)
	if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, os.MkdirAll(dir, mode)) // the error if it is a file
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := MkdirAll(parent, mode); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return Sync(parent)
}

// WriteFile atomically replaces a file: after a crash, path has either the old or the new content. The file is
// readable by its owner only. Its directory must exist.
func WriteFile(path string, data []byte) error {
	temp := path + ".tmp"
	// One that is left from a crash might be readable by others.
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return Sync(filepath.Dir(path))
}

// rename moves a file to the place of another. Windows refuses that while a process reads the other,
// so rename then tries again for a second.
func rename(from, to string) error {
	for end := time.Now().Add(time.Second); ; time.Sleep(5 * time.Millisecond) {
		err := os.Rename(from, to)
		if runtime.GOOS != "windows" || !errors.Is(err, fs.ErrPermission) || time.Now().After(end) {
			return err
		}
	}
}
