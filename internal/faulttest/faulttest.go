// Package faulttest builds the program with a wall clock that a test can step, and syncs that it can slow.
//
// A wrong clock or a slow disk cannot be given to one process alone without help from the kernel. So the
// program is built a second time: the compiler's overlay replaces three functions of the standard library.
// Quorate's own code stays the same, and the product needs no test hooks.
//
//   - time.Now runs ahead by the number of seconds in the file $FAULT_CLOCK; monotonic time stays
//     true. The file is memory-mapped: eight bytes in native byte order. It must exist when the process starts.
//   - Fsync and Fdatasync of package syscall first sleep for the number of milliseconds in the
//     file $FAULT_SYNC, if it exists.
package faulttest

import (
	"bytes"
	"context"
	endian "encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Environment variables that name the files of a process.
const (
	ClockEnv = "FAULT_CLOCK"
	SyncEnv  = "FAULT_SYNC"
)

// SetClock sets the wall clock of the processes that were given the file ahead of the true time, by whole
// seconds; 0 corrects it.
func SetClock(file string, ahead time.Duration) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(endian.NativeEndian.AppendUint64(nil, uint64(ahead/time.Second)), 0)
	return errors.Join(err, f.Close())
}

// Build builds the package pkg of the module in root, and returns the path of the program, which lies in dir.
func Build(root, pkg, dir string) (string, error) {
	replace := map[string]string{}
	for std, list := range changes {
		src, err := exec.CommandContext(context.Background(), "go", "list", "-f", "{{.Dir}}", std).Output()
		if err != nil {
			return "", fmt.Errorf("go list %s: %w", std, err)
		}
		for _, c := range list {
			at := filepath.Join(string(bytes.TrimSpace(src)), c.file)
			text := c.new
			if c.old != "" {
				from := at
				if changed := replace[at]; changed != "" {
					from = changed
				}
				b, err := os.ReadFile(from)
				if err != nil {
					return "", err
				}
				if strings.Count(string(b), c.old) != 1 {
					return "", fmt.Errorf("%s does not contain exactly once the text to replace: %q", at, c.old)
				}
				text = strings.Replace(string(b), c.old, c.new, 1)
			}
			to := filepath.Join(dir, std, c.file)
			if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
				return "", err
			}
			if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
				return "", err
			}
			replace[at] = to
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		return "", err
	}
	out := filepath.Join(dir, "quorate")
	build := exec.CommandContext(context.Background(), "go", "build", "-overlay", path, "-o", out, pkg)
	build.Dir = root
	if msg, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w: %s", err, msg)
	}
	return out, nil
}

var changes = map[string][]struct{ file, old, new string }{
	"time": {
		{"time.go", "\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {", "\tsec, nsec, mono := runtimeNow()\n\tsec += faultSeconds()\n\tif mono == 0 {"},
		{"faults.go", "", `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Mapped, because Now is also called where no system call may be made.
var faultClock = func() *int64 {
	path, _ := syscall.Getenv("FAULT_CLOCK")
	fd, err := syscall.Open(path, syscall.O_RDONLY, 0)
	if err != nil {
		return new(int64)
	}
	b, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	return (*int64)(unsafe.Pointer(&b[0]))
}()

func faultSeconds() int64 {
	if faultClock == nil { // not initialized yet
		return 0
	}
	return atomic.LoadInt64(faultClock)
}
`},
	},
	"syscall": {
		{zsyscall, "func Fdatasync(fd int) (err error) {\n", "func Fdatasync(fd int) (err error) {\n\tfaultSync()\n"},
		{zsyscall, "func Fsync(fd int) (err error) {\n", "func Fsync(fd int) (err error) {\n\tfaultSync()\n"},
		{"faults.go", "", `package syscall

var faultPath, _ = Getenv("FAULT_SYNC")

func faultSync() {
	if faultPath == "" {
		return
	}
	fd, err := Open(faultPath, O_RDONLY, 0)
	if err != nil {
		return
	}
	var b [20]byte
	n, _ := Read(fd, b[:])
	Close(fd)
	by := int64(0)
	for _, c := range b[:max(n, 0)] {
		if '0' <= c && c <= '9' {
			by = by*10 + int64(c-'0')
		}
	}
	for left := NsecToTimespec(by * 1e6); Nanosleep(&left, &left) == EINTR; {
	}
}
`},
	},
}

const zsyscall = "zsyscall_linux_" + runtime.GOARCH + ".go"
