package systemtest

import (
	"bytes"
	endian "encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// A wrong clock or a slow disk cannot be given to one process alone without help from the kernel.
// The test therefore builds the program a second time, as a "bent" build: the compiler's overlay
// replaces three functions of the standard library. Quorate's own code stays the same, and the
// product needs no test hooks.
//
//   - time.Now runs ahead by the number of seconds in the file $BENT_CLOCK; monotonic time stays
//     true. The file is memory-mapped: eight bytes in native byte order.
//   - Fsync and Fdatasync of package syscall first sleep for the number of milliseconds in the
//     file $BENT_SYNC, if it exists.
var bentGround = map[string][]struct{ file, old, new string }{
	"time": {
		{"time.go", "\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {", "\tsec, nsec, mono := runtimeNow()\n\tsec += bentSeconds()\n\tif mono == 0 {"},
		{"bent.go", "", `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Mapped, because Now is also called where no system call may be made.
var bentBy = func() *int64 {
	path, _ := syscall.Getenv("BENT_CLOCK")
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

func bentSeconds() int64 {
	if bentBy == nil { // not initialized yet
		return 0
	}
	return atomic.LoadInt64(bentBy)
}
`},
	},
	"syscall": {
		{zsyscall, "func Fdatasync(fd int) (err error) {\n", "func Fdatasync(fd int) (err error) {\n\tbentSync()\n"},
		{zsyscall, "func Fsync(fd int) (err error) {\n", "func Fsync(fd int) (err error) {\n\tbentSync()\n"},
		{"bent.go", "", `package syscall

var bentPath, _ = Getenv("BENT_SYNC")

func bentSync() {
	if bentPath == "" {
		return
	}
	fd, err := Open(bentPath, O_RDONLY, 0)
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

// bent builds the bent program once.
var bent = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(filepath.Dir(binary), "bent")
	replace := map[string]string{}
	for pkg, changes := range bentGround {
		src, err := exec.Command("go", "list", "-f", "{{.Dir}}", pkg).Output()
		if err != nil {
			return "", fmt.Errorf("go list %s: %w", pkg, err)
		}
		for _, c := range changes {
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
					return "", fmt.Errorf("%s does not have once what is to be replaced: %q", at, c.old)
				}
				text = strings.Replace(string(b), c.old, c.new, 1)
			}
			to := filepath.Join(dir, pkg, c.file)
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
	if msg, err := exec.Command("go", "build", "-overlay", path, "-o", out, "../cmd/quorate").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w: %s", err, msg)
	}
	return out, nil
})

// bend makes a node run the bent program. The node must not have started yet.
func (c *servers) bend(s *server) {
	c.t.Helper()
	program, err := bent()
	if err != nil {
		c.t.Fatal(err)
	}
	// The process that starts the script passes the program's name and arguments; the script drops
	// the name.
	script := filepath.Join(c.dir, s.id+".sh")
	write(c.t, script, fmt.Sprintf("shift\nexec env BENT_CLOCK=%s BENT_SYNC=%s %s \"$@\"\n", c.bentClock(s), c.bentSync(s), program))
	s.prefix = append(s.prefix, "sh", script)
	c.clock(s, 0)
}

// clock sets a node's wall clock ahead of the true time; 0 corrects it.
func (c *servers) clock(s *server, ahead time.Duration) {
	c.t.Helper()
	f, err := os.OpenFile(c.bentClock(s), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(endian.NativeEndian.AppendUint64(nil, uint64(ahead/time.Second)), 0); err != nil {
		c.t.Fatal(err)
	}
}

func (c *servers) bentClock(s *server) string { return filepath.Join(c.dir, s.id+".clock") }
func (c *servers) bentSync(s *server) string  { return filepath.Join(c.dir, s.id+".sync") }

// bends checks that the overlay takes effect. Without it, every test of a bent fault would pass.
func bends(t *testing.T) {
	t.Helper()
	began := time.Now()
	c := newServers(t, 1)
	s := c.nodes[0]
	c.nodes = c.nodes[:1]
	c.bend(s)
	c.clock(s, time.Hour)
	c.start(s)
	c.awaitReady(s, 10*time.Second)
	t.Logf("built and started after %v", time.Since(began).Round(time.Second))
	if ahead := time.Until(s.date(t)); ahead < 59*time.Minute || ahead > 61*time.Minute {
		t.Errorf("the node's clock is %v ahead, want an hour", ahead)
	}
	write(t, c.bentSync(s), "700")
	began = time.Now()
	if c.apply(faultLimits); time.Since(began) < 700*time.Millisecond {
		t.Errorf("limits were committed within %v, with syncs that take 700ms", time.Since(began))
	}
	s.kill()
}

// date returns the time of a node's wall clock, to the second, as it says with every answer.
func (s *server) date(t *testing.T) time.Time {
	t.Helper()
	res, err := httpClient.Get("http://" + s.httpAddr + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	at, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		t.Fatal(err)
	}
	return at
}
