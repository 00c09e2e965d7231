package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestNewest: all entries come, the newest first, over rotations and pages of any size,
// while others are left out, and what is no entry.
func TestNewest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, Options{Path: path, MaxBytes: 60 << 10, Keep: 9})
	for i := range 1500 {
		l.Write(Entry{Identity: "user:" + strconv.Itoa(i), Method: strconv.Itoa(i % 3), Result: OK, What: strings.Repeat("é\n", i%40)})
	}
	if files, _ := filepath.Glob(path + ".*"); len(files) < 3 {
		t.Fatalf("%d files", len(files))
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, "nonsense\n{\"half\":")
	f.Close()
	for _, size := range []int{1, 7, 100, 5000} {
		var got []Entry
		place := &Place{}
		for place != nil {
			var page []Entry
			page, place, err = Newest(path, *place, size, func(e *Entry) bool { return e.Method == "1" })
			if err != nil || len(page) > size {
				t.Fatal(len(page), err)
			}
			got = append(got, page...)
		}
		if len(got) != 500 {
			t.Fatalf("pages of %d: %d entries", size, len(got))
		}
		for i, e := range got {
			if want := "user:" + strconv.Itoa(1499-1-3*i); e.Identity != want {
				t.Fatalf("pages of %d: entry %d is of %s; want %s", size, i, e.Identity, want)
			}
		}
	}
	if got, next, err := Newest(path, Place{File: 50, Before: 9}, 10, nil); len(got) != 0 || next != nil || err != nil {
		t.Error(got, next, err)
	}
	if _, _, err := Newest(path+"x", Place{}, 10, nil); err == nil {
		t.Error("a log that is not there")
	}
}

// TestNewestLongLine: a line longer than a chunk is passed over.
func TestNewestLongLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	text := `{"identity":"user:a"}` + "\n" + strings.Repeat("x", 2*readChunk) + "\n" + `{"identity":"user:b"}` + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, next, err := Newest(path, Place{}, 10, nil)
	if err != nil || next != nil || len(got) != 2 || got[0].Identity != "user:b" || got[1].Identity != "user:a" {
		t.Error(got, next, err)
	}
}

// TestNewestOfAll checks that changes and attempts come merged in one order, across rotations and pages.
func TestNewestOfAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	now := time.Unix(1_800_000_000, 0)
	l := open(t, Options{Path: path, MaxBytes: 8 << 10, Keep: 20, Now: func() time.Time { return now }})
	for i := range 300 {
		now = now.Add(time.Second)
		l.Write(Entry{Identity: "user:" + strconv.Itoa(i), Credential: "token", Result: []Result{OK, OK, Denied}[i%3]})
	}
	for _, size := range []int{1, 7, 1000} {
		var got []Entry
		at := Start()
		for next := &at; next != nil; {
			var page []Entry
			var err error
			if page, next, err = NewestOfAll(path, *next, size, nil); err != nil || len(page) > size {
				t.Fatal(len(page), err)
			}
			got = append(got, page...)
		}
		if len(got) != 300 {
			t.Fatalf("pages of %d: %d entries", size, len(got))
		}
		for i, e := range got {
			if want := "user:" + strconv.Itoa(299-i); e.Identity != want {
				t.Fatalf("pages of %d: entry %d is of %s; want %s", size, i, e.Identity, want)
			}
		}
	}
}
