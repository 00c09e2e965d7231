package recorder

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/history/archive"
	"github.com/quorate/quorate/internal/quota"
)

// TestHistoryRetainsOnFullDisk checks that old files are removed even if nothing can be written: they may
// be what fills the disk.
func TestHistoryRetainsOnFullDisk(t *testing.T) {
	w := newHoursWorld(t, 1)
	for range 300 {
		w.second()
	}
	n := w.nodes[0]
	dir := t.TempDir()
	a, err := archive.Open(dir, archive.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	old := w.now - w.now%Hour - 100*24*Hour
	if err := a.Put(archive.Minutes, []archive.Entry{{Coverage: archive.Coverage{Start: old, Complete: true}}}); err != nil {
		t.Fatal(err)
	}
	file := func(at history.Second) string {
		return filepath.Join(dir, time.Unix(int64(at), 0).UTC().Format("minutes-20060102.db"))
	}
	if err := os.Mkdir(file(w.now), 0o700); err != nil { // prevents a file at this path
		t.Fatal(err)
	}
	n.Files.Archive = a
	n.Files.round(w.now)
	if _, err := os.Stat(file(old)); !os.IsNotExist(err) {
		t.Fatalf("minutes of 100 days ago are still there: %v", err)
	}
}

// TestHistoryIdleHour checks that late uploads complete an hour without any demand like any other hour.
func TestHistoryIdleHour(t *testing.T) {
	w := newHoursWorld(t, 1)
	n := w.nodes[0]
	begin := w.now - w.now%Hour + Hour
	all := []history.Process{{Node: "n0", Incarnation: 1}, {Node: "n1", Incarnation: 1}}
	apply := func(at history.Second, from ...history.Process) {
		l := history.Line{Slot: at.Slot(), Expected: all, From: from}
		lines := &raftlogv1.HistoryLines{Lines: [][]byte{l.Append(nil)}}
		if err := n.replica().Apply(lines); err != nil {
			t.Fatal(err)
		}
		n.Files.round(at)
	}
	late := begin + Hour - 60 // n1 is cut off for the last minute
	for at := begin; at < begin+Hour+600; at += history.SlotSeconds {
		if at >= late && at < begin+Hour {
			apply(at, all[0])
		} else {
			apply(at, all...)
		}
	}
	for at := late; at < begin+Hour; at += history.SlotSeconds {
		apply(at, all[1])
	}
	got, err := n.Files.Read(archive.Hours, 0, keysLimit, begin, begin+Hour)
	if err != nil || len(got) != 1 || !got[0].Complete {
		t.Fatalf("%+v, %v; want an hour that is complete", got, err)
	}
	if n.Files.hours[hourOf{0, begin}] {
		t.Fatal("it is tried again for ever")
	}
}

// TestHistoryOldTeller checks that a process whose clock is at 1970 gets a fast answer: log entries wait meanwhile.
func TestHistoryOldTeller(t *testing.T) {
	w := newHoursWorld(t, 1)
	for range 300 {
		w.second()
	}
	r := w.nodes[w.leader].replica()
	begin := time.Now()
	for range 100 {
		next, _, ok := r.Accept(w.now, history.Process{Node: "old", Incarnation: 1}, 0, nil)
		if want := r.Recent.Open(); !ok || next != want || want < 1_000_000 {
			t.Fatalf("it goes on with %d, %v; want %d", next, ok, want)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Fatalf("took %v", took)
		}
	}
}

// TestHistoryOfHours checks that an hour on disk is not also made from its minutes, and that a missing hour is.
func TestHistoryOfHours(t *testing.T) {
	n := newHoursWorld(t, 1).nodes[0]
	begin := history.Second(500_000) * Hour
	point := history.Point{Counts: history.Counts{Attempted: 60 * quota.Token}, Peak: quota.Token}
	put := func(r archive.Resolution, at history.Second) {
		e := archive.Entry{Coverage: archive.Coverage{Start: at, Complete: true}, Points: []archive.Point{{Limit: keysLimit, Point: point}}}
		if err := n.Files.Archive.Put(r, []archive.Entry{e}); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range []history.Second{0, 1, 3} {
		put(archive.Hours, begin+h*Hour)
	}
	for _, m := range []history.Second{120, 179, 250} {
		put(archive.Minutes, begin+m*60)
	}
	damaged := []archive.Rows{{Start: begin + Hour, Cover: []byte("?")}}
	if err := n.Files.Archive.PutRows(archive.Minutes, damaged); err != nil {
		t.Fatal(err)
	}
	got, _, err := n.localPoints(0, history.Query{Limit: keysLimit, From: begin + 60, End: begin + 5*Hour, Step: int(Hour)})
	if err != nil || len(got) != 5 {
		t.Fatalf("%+v, %v; want five hours, and no minute of the second looked at", got, err)
	}
	for i, p := range got {
		want := quota.Units(60)
		if i == 2 {
			want = 120
		}
		if p.Start != begin+history.Second(i)*Hour || p.Seconds != 3600 || p.Attempted != want*quota.Token {
			t.Errorf("%d: %+v; want %d", i, p, want)
		}
	}
}

// TestHistoryOfShortTimesLongAgo checks that a few hours whose minutes are no longer kept yield limits and
// keys by the hour.
func TestHistoryOfShortTimesLongAgo(t *testing.T) {
	w := newHoursWorld(t, 1)
	for range 300 {
		w.second()
	}
	n := w.nodes[0]
	begin := history.Second(480_000) * Hour
	point := history.Point{Counts: history.Counts{Attempted: 60 * quota.Token}, Peak: quota.Token}
	keys := []history.TopKeys{{Limit: keysLimit, Keys: []history.KeyTotal{{Key: "a", Attempted: 60 * quota.Token}}}}
	for h := range history.Second(3) {
		e := archive.Entry{Coverage: archive.Coverage{Start: begin + h*Hour, Complete: true}, Points: []archive.Point{{Limit: keysLimit, Point: point}}}
		k := archive.KeysEntry{Start: e.Start, KeysSpan: history.KeysSpan{From: e.Start, Upto: e.Start + Hour}, Lists: keys}
		if err := errors.Join(n.Files.Archive.Put(archive.Hours, []archive.Entry{e}), n.Files.Archive.PutKeys(archive.KeyHours, []archive.KeysEntry{k})); err != nil {
			t.Fatal(err)
		}
	}
	from, end := begin+Hour, begin+3*Hour
	used, _, err := n.localLimits(t.Context(), 0, from, end)
	if err != nil || len(used) != 1 || used[0].Limit != keysLimit || used[0].Attempted != 120*quota.Token || !used[0].Complete {
		t.Errorf("limits: %+v, %v; want 120 tokens", used, err)
	}
	sum, _, err := n.Files.Keys.Read(0, n.replica(), keysLimit, from, end)
	if top := sum.Top(keysLimit, 10); err != nil || len(top.Keys) != 1 || top.Keys[0].Attempted != 120*quota.Token {
		t.Errorf("keys: %+v, %v; want 120 tokens", top, err)
	}
}
