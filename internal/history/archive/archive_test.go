package archive

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/syncdir"
)

var (
	limits = []quota.LimitName{{Namespace: "a", Limit: "x"}, {Namespace: "a", Limit: "y"}, history.Other}
	begin  = history.Second(time.Date(2026, 11, 29, 23, 0, 0, 0, time.UTC).Unix())
)

func openIn(t *testing.T, dir string, cfg Config) *Archive {
	t.Helper()
	a, err := Open(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

func pointOf(n int64) history.Point {
	u := quota.Units(n)
	return history.Point{Counts: history.Counts{Attempted: u, Admitted: u - 1, Over: 1, Needless: 2}, Peak: u / 2, Mean: u / 3, P50: u / 4, P95: u / 5, P99: u / 6}
}

func read(t *testing.T, a *Archive, r Resolution, rng quota.RangeID, l quota.LimitName, from, end history.Second) []history.Point {
	t.Helper()
	var out []history.Point
	if err := a.Read(r, rng, l, from, end, func(p history.Point) bool { out = append(out, p); return true }); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestNamesAreSynced checks that a power cut does not take the name of a new file.
func TestNamesAreSynced(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows syncs no directories")
	}
	dir := filepath.Join(t.TempDir(), "history")
	synced := map[string][]string{}
	defer syncdir.Observe(func(dir string) {
		entries, _ := os.ReadDir(dir)
		synced[dir] = nil
		for _, e := range entries {
			synced[dir] = append(synced[dir], e.Name())
		}
	})()
	a := openIn(t, dir, Config{})
	if err := a.Put(Minutes, []Entry{{Coverage: Coverage{Start: begin, Complete: true}, Points: []Point{{limits[0], pointOf(7)}}}}); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) == 0 {
		t.Fatalf("no file (%v)", err)
	}
	for _, f := range files {
		if !slices.Contains(synced[dir], f.Name()) {
			t.Errorf("%s is not among the synced names %v", f.Name(), synced[dir])
		}
	}
	if !slices.Contains(synced[filepath.Dir(dir)], "history") {
		t.Errorf("the directory's own name was not synced: %v", synced)
	}
}

// TestModel compares the archive with a map: Read returns the data of the last Put, across days
// and months and after the archive is closed and reopened.
func TestModel(t *testing.T) {
	type at struct {
		r     Resolution
		rng   quota.RangeID
		start history.Second
	}
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 1))
		dir, model := t.TempDir(), map[at]Entry{}
		a := openIn(t, dir, Config{})
		for range 120 {
			r := Resolution(rng.IntN(2))
			e := Entry{Range: quota.RangeID(rng.IntN(3))}
			e.Start = begin + history.Second(rng.IntN(150))*r.Seconds()
			if e.Complete = rng.IntN(2) == 0; !e.Complete {
				e.Missing = []history.Process{{Node: "n", Incarnation: quota.Incarnation(rng.Uint64())}}
			}
			k := at{r, e.Range, e.Start}
			for i, l := range limits { // a limit keeps its point, because sums only grow
				had := slices.ContainsFunc(model[k].Points, func(p Point) bool { return p.Limit == l })
				if had || rng.IntN(2) == 0 {
					e.Points = append(e.Points, Point{l, pointOf(int64(100*i) + rng.Int64N(1e12))})
				}
			}
			if err := a.Put(r, []Entry{e}); err != nil {
				t.Fatal(err)
			}
			model[k] = e
			if rng.IntN(20) == 0 {
				if err := a.Close(); err != nil {
					t.Fatal(err)
				}
				a = openIn(t, dir, Config{})
			}
		}
		for _, r := range []Resolution{Minutes, Hours} {
			from, end := begin+history.Second(rng.IntN(100))*r.Seconds(), begin+history.Second(100+rng.IntN(60))*r.Seconds()
			for id := range quota.RangeID(3) {
				for _, l := range limits {
					var want []history.Point
					for start := from; start < end; start += r.Seconds() {
						e, there := model[at{r, id, start}]
						if !there {
							continue
						}
						p := history.Point{}
						for i := range e.Points {
							if e.Points[i].Limit == l {
								p = e.Points[i].Point
							}
						}
						p.Start, p.Seconds, p.Complete, p.Missing = start, int(r.Seconds()), e.Complete, e.Missing
						want = append(want, p)
					}
					if got := read(t, a, r, id, l, from, end); !reflect.DeepEqual(got, want) {
						t.Fatalf("seed %d, range %d, %v:\n got %+v\nwant %+v", seed, id, l, got, want)
					}
				}
			}
		}
	}
}

// TestRetain checks that Retain removes files that are too old, removes the oldest files when the
// archive is too large, and keeps the current files.
func TestRetain(t *testing.T) {
	fill := func(cfg Config) (*Archive, history.Second) {
		a, now := openIn(t, t.TempDir(), cfg), begin
		for day := range history.Second(5) {
			now = begin + day*86400
			e := Entry{Coverage: Coverage{Start: now, Complete: true}, Points: []Point{{limits[0], pointOf(5)}}}
			if err := errors.Join(a.Put(Minutes, []Entry{e}), a.Put(Hours, []Entry{e})); err != nil {
				t.Fatal(err)
			}
		}
		return a, now
	}
	a, now := fill(Config{Minutes: 48 * time.Hour})
	if gone, err := a.Retain(now); err != nil || len(gone) != 2 {
		t.Fatalf("%v, %v", gone, err)
	}
	if got := read(t, a, Minutes, 0, limits[0], begin, now+60); len(got) != 3 {
		t.Fatalf("%d minutes of 3 days", len(got))
	}
	if got := read(t, a, Hours, 0, limits[0], begin, now+60); len(got) != 5 {
		t.Fatalf("%d hours", len(got))
	}
	a, now = fill(Config{MaxBytes: 1})
	if gone, err := a.Retain(now); err != nil || len(gone) != 5 {
		t.Fatalf("%v, %v: all days but today, and the month before", gone, err)
	}
}

// TestDamaged checks that a file that fails Check is set aside, and that the archive still reads
// and writes.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	e := Entry{Coverage: Coverage{Start: begin, Complete: true}}
	a := openIn(t, dir, Config{})
	if err := errors.Join(a.Put(Minutes, []Entry{e}), a.Close()); err != nil {
		t.Fatal(err)
	}
	aside := ""
	a = openIn(t, dir, Config{
		Check:   func(string) error { return errors.New("damaged") },
		Damaged: func(path string, _ error) { aside = path },
	})
	if got := read(t, a, Minutes, 0, limits[0], begin, begin+60); len(got) != 0 || !strings.Contains(aside, ".damaged-") {
		t.Fatalf("%v, %q", got, aside)
	}
	if _, err := os.Stat(aside); err != nil {
		t.Fatal(err)
	}
	if err := a.Put(Minutes, []Entry{e}); err != nil {
		t.Fatal(err)
	}
}

// TestLimitsAndDrop checks that Limits returns the limits of one range only, and that Drop deletes
// one range only.
func TestLimitsAndDrop(t *testing.T) {
	a := openIn(t, t.TempDir(), Config{})
	for id := range quota.RangeID(2) {
		e := Entry{Range: id, Coverage: Coverage{Start: begin}, Points: []Point{{limits[id], pointOf(9)}, {history.Other, pointOf(1)}}}
		if err := a.Put(Minutes, []Entry{e}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := a.Limits(Minutes, 1, begin-60, begin+60)
	if err != nil || len(got) != 2 || !got[limits[1]] || !got[history.Other] {
		t.Fatalf("%v, %v", got, err)
	}
	if err := a.Drop(0); err != nil {
		t.Fatal(err)
	}
	if left := read(t, a, Minutes, 0, limits[0], begin, begin+60); len(left) != 0 {
		t.Fatalf("%v", left)
	}
	if left := read(t, a, Minutes, 1, limits[1], begin, begin+60); len(left) != 1 {
		t.Fatalf("%v", left)
	}
}

// TestFullDisk checks that a failed write returns an error and stored data stay readable.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	a := openIn(t, dir, Config{})
	e := Entry{Coverage: Coverage{Start: begin, Complete: true}}
	if err := a.Put(Minutes, []Entry{e}); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, Minutes.file(begin+86400)), 0o700); err != nil { // blocks the file's path
		t.Fatal(err)
	}
	e.Start += 86400
	if err := a.Put(Minutes, []Entry{e}); err == nil {
		t.Fatal("no error")
	}
	if got := read(t, a, Minutes, 0, limits[0], begin, begin+60); len(got) != 1 {
		t.Fatalf("%v", got)
	}
}

// FuzzDecode checks that no bytes make the decoders panic, and that decoded data survive a round
// trip.
func FuzzDecode(f *testing.F) {
	p := pointOf(77)
	f.Add(p.Append(nil))
	f.Add(appendCoverage(nil, &Coverage{Missing: []history.Process{{Node: "a", Incarnation: 1}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := history.DecodePoint(b); err == nil {
			if again, err := history.DecodePoint(p.Append(nil)); err != nil || !reflect.DeepEqual(again, p) {
				t.Fatalf("%+v became %+v: %v", p, again, err)
			}
		}
		if c, err := decodeCoverage(b); err == nil {
			if again, err := decodeCoverage(appendCoverage(nil, &c)); err != nil || !reflect.DeepEqual(again, c) {
				t.Fatalf("%+v became %+v: %v", c, again, err)
			}
		}
	})
}

// TestKeysCostNoPoint checks that the bound on keys includes hours of keys: Retain removes files of
// keys that were set aside and months of keys before any day of points, but never the current
// month.
func TestKeysCostNoPoint(t *testing.T) {
	dir := t.TempDir()
	a := openIn(t, dir, Config{})
	now := history.Second(time.Date(2026, 6, 20, 0, 0, 0, 0, time.UTC).Unix())
	list := history.TopKeys{Limit: limits[0]}
	for i := range 1000 {
		list.Keys = append(list.Keys, history.KeyTotal{Key: fmt.Sprintf("%0500d", i), Attempted: 1})
	}
	var want []string
	for month := range 5 {
		at := history.Second(time.Date(2026, time.Month(2+month), 10, 0, 0, 0, 0, time.UTC).Unix())
		if err := a.PutKeys(KeyHours, []KeysEntry{{Start: at, Lists: []history.TopKeys{list}}}); err != nil {
			t.Fatal(err)
		}
		if month < 4 {
			want = append(want, KeyHours.file(at))
		}
	}
	for day := range history.Second(5) {
		e := Entry{Coverage: Coverage{Start: now - day*86400, Complete: true}, Points: []Point{{limits[0], pointOf(5)}}}
		if err := a.Put(Minutes, []Entry{e}); err != nil {
			t.Fatal(err)
		}
	}
	size, err := a.Size()
	if err != nil {
		t.Fatal(err)
	}
	a.cfg.MaxBytes = size / 2                       // keys may use a quarter of it
	aside := KeyHours.file(now) + damagedMark + "1" // never read, so Retain removes it first
	if err := os.WriteFile(filepath.Join(dir, aside), make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	want = append([]string{aside}, want...)
	if gone, err := a.Retain(now); err != nil || !slices.Equal(gone, want) {
		t.Fatalf("%v, %v; want %v", gone, err, want)
	}
}

// TestReadWhileFilesGo removes and recreates a day while other goroutines read it, and checks that
// no call fails because its file is not open. After Close, every call returns ErrClosed and opens
// no file.
func TestReadWhileFilesGo(t *testing.T) {
	dir := t.TempDir()
	a := openIn(t, dir, Config{Minutes: 24 * time.Hour})
	late := begin + 40*24*3600
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for going := true; going; {
				select {
				case <-stop:
					going = false
				default:
				}
				err := a.Read(Minutes, 1, limits[0], begin, begin+3600, func(history.Point) bool { return true })
				if _, more := a.Limits(Minutes, 1, begin, begin+3600); err != nil || more != nil {
					t.Errorf("read: %v, %v", err, more)
					return
				}
			}
		})
	}
	for i := range 150 {
		e := Entry{Range: 1, Coverage: Coverage{Start: begin}, Points: []Point{{limits[0], pointOf(int64(i + 1))}}}
		if err := a.Put(Minutes, []Entry{e}); err != nil {
			t.Fatal(err)
		}
		if gone, err := a.Retain(late); err != nil || len(gone) != 1 {
			t.Fatalf("round %d: removed %v, %v", i, gone, err)
		}
	}
	close(stop)
	readers.Wait()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	err := a.Read(Minutes, 1, limits[0], begin, begin+3600, func(history.Point) bool { return true })
	if put := a.Put(Minutes, []Entry{{Range: 1, Coverage: Coverage{Start: begin}}}); !errors.Is(err, ErrClosed) || !errors.Is(put, ErrClosed) {
		t.Errorf("after Close: read %v, put %v", err, put)
	}
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Errorf("after Close there is %v", files)
	}
}
