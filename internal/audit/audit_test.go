package audit

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
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

// TestRotation: the files are bounded in size and number, nothing is lost between
// two of them, and a log that is opened again goes on.
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
		if err != nil || info.Size() > o.MaxBytes || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %d bytes, %v, %v", f, info.Size(), info.Mode(), err)
		}
		total += len(read(t, f))
	}
	now := read(t, path)
	if now[len(now)-1].Identity != "client:last" || total < 30 {
		t.Errorf("%d entries, the last %+v", total, now[len(now)-1])
	}
}

// TestDeniedIsBounded: a flood of denied attempts leaves room for what was changed,
// and says how many are missing.
func TestDeniedIsBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	l := open(t, Options{Now: func() time.Time { return now }})
	for range 1000 {
		l.Write(Entry{Result: Denied})
	}
	l.Write(Entry{Result: OK, Method: "m"})
	now = now.Add(time.Second)
	for range 1000 {
		l.Write(Entry{Result: Denied})
	}
	got := read(t, l.o.Path)
	if want := deniedBurst + 1 + deniedRate; len(got) != want {
		t.Fatalf("%d entries; want %d", len(got), want)
	}
	if e := got[deniedBurst]; e.Method != "m" || e.Unwritten != 900 || !e.Time.Equal(now.Add(-time.Second)) {
		t.Errorf("%+v", e)
	}
}

// TestCannotBeWritten: nothing stops, the loss is counted, said once, and writing
// goes on when it can.
func TestCannotBeWritten(t *testing.T) {
	var out bytes.Buffer
	l := open(t, Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	good := l.file
	l.file = full
	for range 3 {
		l.Write(Entry{Result: OK})
	}
	l.file = good
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
				l.Write(Entry{Identity: "user:a\n\"b", What: strings.Repeat("\xff", 5000), Result: Failed})
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
