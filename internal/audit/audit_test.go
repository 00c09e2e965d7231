package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

func open(t *testing.T, o Options) *Log {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(t.TempDir(), "data", "audit.log")
	}
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func read(t *testing.T, path string) (out []Entry) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var e Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		out = append(out, e)
	}
	return out
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestRotation: the files are bounded in size and number, nothing is lost between
// two of them, and a log that is opened again continues.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	o := Options{Path: path, MaxBytes: 4 << 10, Keep: 2}
	l := open(t, o)
	for range 100 {
		l.Write(Entry{Identity: "client:ci", What: strings.Repeat("x", 100), Result: OK})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, o)
	l.Write(Entry{Identity: "client:last", Result: OK})
	files, _ := filepath.Glob(path + "*")
	if len(files) != 3 {
		t.Fatalf("%v", files)
	}
	total := 0
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil || info.Size() > o.MaxBytes || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %d bytes, %v, %v", f, info.Size(), info.Mode(), err)
		}
		total += len(read(t, f))
	}
	now := read(t, path)
	if now[len(now)-1].Identity != "client:last" || total < 30 {
		t.Errorf("%d entries, the last %+v", total, now[len(now)-1])
	}
}

// TestAttemptsAreBounded checks that a flood of denied or failed calls does not displace changes,
// that one address or identity leaves room for others, and that the next entry reports the number of
// unwritten attempts.
func TestAttemptsAreBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	l := open(t, Options{MaxBytes: 8 << 10, Keep: 1, Now: func() time.Time { return now }})
	l.Write(Entry{Result: OK, Method: "first"})
	for i := range 10_000 {
		l.Write(Entry{Result: []Result{Denied, Failed}[i%2], Credential: "none", Address: fmt.Sprintf("2001:db8::%x", i), What: strings.Repeat("x", 100)})
		l.Write(Entry{Result: OK, Attempt: true, Identity: "user:noisy", Credential: "token"})
		now = now.Add(time.Millisecond)
	}
	l.Write(Entry{Result: Denied, Credential: "none", Address: "203.0.113.7", Method: "another address"})
	l.Write(Entry{Result: Failed, Credential: "token", Identity: "user:quiet", Method: "another identity"})
	l.Write(Entry{Result: OK, Method: "last"})
	done := read(t, l.o.Path)
	if len(done) != 2 || done[0].Method != "first" || done[1].Method != "last" {
		t.Fatalf("what was done: %+v", done)
	}
	attempts := read(t, AttemptsPath(l.o.Path))
	if older := AttemptsPath(l.o.Path) + ".1"; exists(older) {
		attempts = append(read(t, older), attempts...)
	}
	n := len(attempts)
	if want := 2 * (attemptBurstOne + 10*attemptRateOne); n > want+4 || attempts[n-2].Method != "another address" || attempts[n-1].Method != "another identity" {
		t.Fatalf("%d attempts; want %d at most: %+v", n, want, attempts[n-2:])
	}
	if attempts[n-2].Unwritten == 0 {
		t.Errorf("nothing says how many were not written: %+v", attempts[n-2])
	}
	for i := range 1000 { // many addresses
		l.Write(Entry{Result: Denied, Credential: "none", Address: fmt.Sprintf("10.0.%d.%d", i/256, i%256)})
	}
	if got := len(read(t, AttemptsPath(l.o.Path))); got > n+attemptBurst {
		t.Errorf("%d attempts of many addresses", got-n)
	}
	l.bounds.unproven = rate.NewLimiter(1e9, 1e9)
	for i := range 2 * maxOwners {
		l.Write(Entry{Result: Denied, Credential: "none", Address: fmt.Sprintf("10.1.%d.%d", i/256, i%256)})
	}
	if len(l.bounds.owners) > maxOwners {
		t.Errorf("%d owners are remembered", len(l.bounds.owners))
	}
}

// TestRequestIDIsBounded checks that a long request id, which callers choose, is cut.
func TestRequestIDIsBounded(t *testing.T) {
	l := open(t, Options{})
	l.Write(Entry{RequestID: strings.Repeat("x", 10_000), Result: OK})
	if got := read(t, l.o.Path)[0].RequestID; len(got) > maxRequestID+3 {
		t.Errorf("%d bytes", len(got))
	}
}

// TestCannotBeWritten: nothing stops, the loss is counted, said once, and writing
// continues when it can.
func TestCannotBeWritten(t *testing.T) {
	var out bytes.Buffer
	l := open(t, Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	good := l.done.file
	l.done.file = full
	for range 3 {
		l.Write(Entry{Result: OK})
	}
	l.done.file = good
	l.Write(Entry{Result: OK, Method: "after"})
	if got := read(t, l.o.Path); len(got) != 1 || got[0].Method != "after" || l.Lost() != 3 {
		t.Errorf("%+v, %d lost", got, l.Lost())
	}
	if text := out.String(); strings.Count(text, "cannot be written") != 1 || strings.Count(text, "written again") != 1 || !strings.Contains(text, "lost=3") {
		t.Error(text)
	}
	_ = full.Close()
	if _, err := Open(Options{Path: "/dev/null/x/audit.log"}); err == nil || !strings.Contains(err.Error(), "audit log: ") {
		t.Errorf("%v", err)
	}
}

// TestEveryLineIsWhole: many write at once, with texts that break lines and are too
// long.
func TestEveryLineIsWhole(t *testing.T) {
	l := open(t, Options{MaxBytes: 1 << 20})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				l.Write(Entry{Identity: "user:a\n\"b", What: strings.Repeat("\xff", 5000), Result: OK})
			}
		})
	}
	wg.Wait()
	for _, e := range read(t, l.o.Path) {
		if e.Identity != "user:a\n\"b" {
			t.Fatalf("%+v", e)
		}
	}
	var none *Log
	none.Write(Entry{})
	if none.Lost() != 0 || none.Close() != nil {
		t.Error("a nil log")
	}
}

// TestRotationFails checks that a rotation that fails again and again drops one older file at most.
func TestRotationFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, Options{Path: path, MaxBytes: 1 << 10, Keep: 3})
	write := func(n int) {
		for range n {
			l.Write(Entry{Identity: "client:ci", What: strings.Repeat("x", 600), Result: OK})
		}
	}
	write(4)
	var files []string
	for i := 1; i <= 3; i++ {
		files = append(files, string(mustRead(t, fmt.Sprintf("%s.%d", path, i))))
	}
	l.done.rename = func(from, to string) error {
		if from == path {
			return os.ErrPermission
		}
		return os.Rename(from, to)
	}
	write(10)
	if got, _, err := Find(path, Query{From: Start(), Most: 10}); len(got) != 3 || err != nil {
		t.Errorf("%d entries are found beyond the gap, %v; want 3", len(got), err)
	}
	l.done.rename = os.Rename
	write(1)
	for i := range 2 {
		if got := string(mustRead(t, fmt.Sprintf("%s.%d", path, i+2))); got != files[i] {
			t.Errorf("file %d has %d bytes of the %d of file %d", i+2, len(got), len(files[i]), i+1)
		}
	}
	if l.Lost() != 10 {
		t.Errorf("%d entries are lost; want 10", l.Lost())
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestUnwrittenIsKept checks that an entry that cannot be written does not take along the number of attempts
// that were skipped before it: the next one that is written has it.
func TestUnwrittenIsKept(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	l := open(t, Options{Now: func() time.Time { return now }})
	for range attemptBurstOne + 7 {
		l.Write(Entry{Result: Denied, Credential: "none", Address: "203.0.113.7"})
	}
	if err := l.done.file.Close(); err != nil { // every write fails
		t.Fatal(err)
	}
	l.Write(Entry{Result: OK, Method: "lost"})
	l.done.file = nil
	l.Write(Entry{Result: OK, Method: "written"})
	got := read(t, l.o.Path)
	if len(got) != 1 || got[0].Method != "written" || got[0].Unwritten != 7 {
		t.Errorf("%+v; want one that counts 7 unwritten", got)
	}
}
