//go:build unix

package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/quorate/quorate/internal/buftest"
	"github.com/quorate/quorate/internal/quota"
)

func key(i int) quota.Key {
	return quota.Key{LimitName: quota.LimitName{Namespace: "api", Limit: "daily"}, Key: fmt.Sprintf("key%d", i)}
}

func config(dir string, inc quota.Incarnation) Config {
	return Config{Dir: dir, Cluster: "c", Node: "n1", Incarnation: inc}
}

func open(t *testing.T, cfg Config) *Journal {
	t.Helper()
	j, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func sorted(es []quota.RecoveredCounts) []quota.RecoveredCounts {
	slices.SortFunc(es, func(a, b quota.RecoveredCounts) int {
		if c := a.Key.Compare(b.Key); c != 0 {
			return c
		}
		return int(a.Incarnation) - int(b.Incarnation)
	})
	return es
}

func want(t *testing.T, j *Journal, entries ...quota.RecoveredCounts) {
	t.Helper()
	if got := sorted(j.Inherited()); !slices.Equal(got, entries) {
		t.Errorf("inherited\n%+v, want\n%+v", got, entries)
	}
}

// TestIncarnations: Open returns the counts that no leader has settled, over any number of processes, and no
// counts that were freed or settled.
func TestIncarnations(t *testing.T) {
	dir := t.TempDir()
	j := open(t, config(dir, 1))
	want(t, j)
	a, b, c := j.Slot(key(1), 7), j.Slot(key(2), 8), j.Slot(key(3), 9)
	for i := range quota.Units(5) {
		a.Set(quota.Counts{Total: 10 * i, Saved: 3 * i, Before: i, Back: i / 2, Window: quota.Time(i)})
		b.Set(quota.Counts{Total: 20 * i})
	}
	c.Set(quota.Counts{Total: 1, Saved: 1, Before: 1, Back: 1, Window: 1})
	b.Free()
	j.Close()
	first := quota.RecoveredCounts{Opening: quota.Opening{Key: key(1), Incarnation: 1, Epoch: 7}, Counts: quota.Counts{Total: 40, Saved: 12, Before: 4, Back: 2, Window: 4}}
	third := quota.RecoveredCounts{Opening: quota.Opening{Key: key(3), Incarnation: 1, Epoch: 9}, Counts: quota.Counts{Total: 1, Saved: 1, Before: 1, Back: 1, Window: 1}}

	j = open(t, config(dir, 2))
	want(t, j, first, third)
	d := j.Slot(key(1), 1)
	d.Set(quota.Counts{Total: 99})
	if s := j.Stats(); s.Used != 3 || s.Earlier != 2 || s.Incarnations != 1 {
		t.Errorf("%+v", s)
	}
	j.Close()
	second := quota.RecoveredCounts{Opening: quota.Opening{Key: key(1), Incarnation: 2, Epoch: 1}, Counts: quota.Counts{Total: 99}}

	j = open(t, config(dir, 3))
	want(t, j, first, second, third)
	if s := j.Stats(); s.Incarnations != 2 {
		t.Errorf("%+v", s)
	}
	j.Settled(key(1), 1, 7)
	j.Settled(key(1), 1, 7)
	j.Settled(key(3), 1, 8) // another epoch
	j.Settled(key(4), 1, 8)
	j.Close()

	j = open(t, config(dir, 4))
	want(t, j, second, third)
	j.Settled(key(1), 2, 1)
	j.Settled(key(3), 1, 9)
	if s := j.Stats(); s.Used != 0 || s.Earlier != 0 || s.Incarnations != 0 || s.Slots != firstSteps*stepSlots {
		t.Errorf("%+v", s)
	}
	j.Close()
	d.Set(quota.Counts{Total: 1}) // without effect or harm
	d.Free()
	want(t, open(t, config(dir, 5)))
}

// TestNothingCounted: a claimed slot reports its key even if nothing was counted on it: the process
// may have died before it used what a leader gave it.
func TestNothingCounted(t *testing.T) {
	dir := t.TempDir()
	j := open(t, config(dir, 1))
	j.Slot(key(1), 7)
	j.Close()
	want(t, open(t, config(dir, 2)), quota.RecoveredCounts{Opening: quota.Opening{Key: key(1), Incarnation: 1, Epoch: 7}})
}

// TestTorn stops a Set after each of its stores: the slot keeps its old content until the last
// store.
func TestTorn(t *testing.T) {
	j := open(t, config(t.TempDir(), 1))
	p := j.Slot(key(1), 1).(*place)
	for round := range 3 { // for both halves
		p.Set(quota.Counts{Total: 1, Saved: 2, Before: 3, Back: 4, Window: quota.Time(5 + round)})
		before := *p.p
		old, err := before.read()
		if err != nil {
			t.Fatal(err)
		}
		p.Set(quota.Counts{Total: 50, Saved: 60, Before: 70, Back: 80, Window: 90})
		after := *p.p
		set, err := after.read()
		if err != nil || set == old {
			t.Fatalf("%+v, %v", set, err)
		}
		torn := before
		from := int(unsafe.Offsetof(torn.halves)) + int(p.seq&1)*int(unsafe.Sizeof(half{}))
		for i := range int(unsafe.Sizeof(half{})) { // byte by byte: finer than real stores
			if got, err := torn.read(); err != nil || got != old {
				t.Fatalf("after %d bytes: %+v, %v; want %+v", i, got, err, old)
			}
			bytesOf(&torn)[from+i] = bytesOf(&after)[from+i]
		}
		if got, err := torn.read(); err != nil || got != set {
			t.Fatalf("%+v, %v; want %+v", got, err, set)
		}
	}
}

func TestLongKeys(t *testing.T) {
	dir := t.TempDir()
	j := open(t, config(dir, 1))
	k := key(1)
	k.Key = strings.Repeat("x", maxText-len(k.Namespace)-len(k.Limit))
	if s := j.Slot(k, 1); s == nil {
		t.Error("a key that just fits has no slot")
	}
	if s := j.Slot(quota.Key{LimitName: k.LimitName, Key: k.Key + "x"}, 1); s != nil {
		t.Error("a key that is too long has a slot")
	}
	if s := j.Stats(); s.TooLong != 1 || s.NoRoom != 0 || s.Used != 1 {
		t.Errorf("%+v", s)
	}
	j.Close()
	want(t, open(t, config(dir, 2)), quota.RecoveredCounts{Opening: quota.Opening{Key: k, Incarnation: 1, Epoch: 1}})
}

// TestGrowth fills a journal to its bound and reopens it.
func TestGrowth(t *testing.T) {
	const most = 4 * stepSlots
	cfg := config(t.TempDir(), 1)
	cfg.MaxSlots = most
	j := open(t, cfg)
	for i := range most {
		s := j.Slot(key(i), 1)
		for end := time.Now().Add(time.Minute); s == nil; s = j.Slot(key(i), 1) { // it grows in the background
			if time.Sleep(time.Millisecond); time.Now().After(end) {
				t.Fatalf("no slot for key %d: %+v", i, j.Stats())
			}
		}
		s.Set(quota.Counts{Total: quota.Units(i)})
	}
	before := j.Stats().NoRoom
	if s := j.Slot(key(most), 1); s != nil {
		t.Error("one more than the bound")
	}
	if s := j.Stats(); s.Slots != most || s.Used != most || s.NoRoom != before+1 || s.Full {
		t.Errorf("%+v", s)
	}
	j.Close()
	cfg.Incarnation = 2
	j = open(t, cfg)
	got := j.Inherited()
	if len(got) != most {
		t.Fatalf("%d entries; want %d", len(got), most)
	}
	for _, e := range got {
		if e.Key != key(int(e.Total)) {
			t.Fatalf("%+v", e)
		}
		j.Settled(e.Key, e.Incarnation, e.Epoch)
	}
	if s := j.Slot(key(most), 1); s == nil {
		t.Errorf("no slot after all were settled: %+v", j.Stats())
	}
}

// TestFullDisk: without room to grow, existing slots stay, new keys get no slot and are counted,
// and the log reports it once. When there is room again, the journal grows.
func TestFullDisk(t *testing.T) {
	var log buftest.Buffer
	cfg := config(t.TempDir(), 1)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	j := open(t, cfg)
	var full atomic.Bool
	full.Store(true)
	j.allocate = func(f *os.File, from int64, size int) error {
		if full.Load() {
			return syscall.ENOSPC
		}
		return allocate(f, from, size)
	}
	const room = firstSteps * stepSlots
	for i := range room + 10 {
		if s := j.Slot(key(i), 1); (s != nil) != (i < room) {
			t.Fatalf("slot for key %d: %v", i, s)
		}
	}
	await(t, j, "full", func(s Stats) bool { return s.Full })
	if s := j.Stats(); s.Used != room || s.NoRoom != 10 || s.Slots != room {
		t.Errorf("%+v", s)
	}
	full.Store(false)
	for end := time.Now().Add(10 * time.Second); j.Slot(key(room), 1) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("does not grow again: %+v", j.Stats())
		}
	}
	// By more than one step if the first is soon used: more than a step's slots stay free.
	await(t, j, "larger", func(s Stats) bool { return !s.Full && s.Slots >= room+stepSlots })
	j.Close()
	if said := log.String(); strings.Count(said, "cannot grow") != 1 || strings.Count(said, "grows again") != 1 || !strings.Contains(said, j.path) {
		t.Errorf("the log says:\n%s", said)
	}
}

func await(t *testing.T, j *Journal, what string, is func(Stats) bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(j.Stats()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("is not %s: %+v", what, j.Stats())
		}
	}
}

// TestDamage: the error describes the damage, the file is kept aside, and all whole slots survive.
func TestDamage(t *testing.T) {
	slotAt := func(i int) int { return headerSize + i*slotSize }
	for _, c := range []struct {
		name   string
		damage func(b []byte) []byte
		says   string
		whole  []int // of keys 0 to 9
	}{
		{"empty", func([]byte) []byte { return nil }, "is truncated: 0 bytes", nil},
		{"half a header", func(b []byte) []byte { return b[:100] }, "is truncated: 100 bytes", nil},
		{"no journal", func(b []byte) []byte { b[0]++; return b }, "is not a journal", nil},
		{"another version", func(b []byte) []byte { b[8] = 9; return b }, "has version 9; this node reads 1", nil},
		{"a damaged name", func(b []byte) []byte { b[40]++; return b }, "its header is damaged", nil},
		{"a slot cut off", func(b []byte) []byte { return b[:slotAt(4)+100] }, "must be 1052672", []int{0, 1, 2, 3}},
		{"damaged keys", func(b []byte) []byte { b[slotAt(2)+146]++; b[slotAt(5)+24]++; return b }, "slot 2, at byte 5120: the check of its key", []int{0, 1, 3, 4, 6, 7, 8, 9}},
		{"damaged counts", func(b []byte) []byte { b[slotAt(2)+33]++; b[slotAt(2)+89]++; return b }, "slot 2, at byte 5120: the checks of its counts", []int{0, 1, 3, 4, 5, 6, 7, 8, 9}},
		{"impossible lengths", func(b []byte) []byte { b[slotAt(1)+25] = 200; return b }, "at most 368", []int{0, 2, 3, 4, 5, 6, 7, 8, 9}},
		{"a slot twice", func(b []byte) []byte { copy(b[slotAt(1):slotAt(2)], b[slotAt(0):]); return b }, "duplicates slot 0: api/daily/key0", []int{0, 2, 3, 4, 5, 6, 7, 8, 9}},
		{"all", func(b []byte) []byte {
			for i := range 10 {
				b[slotAt(i)]++
			}
			return b
		}, "and 6 more slots", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			j := open(t, config(dir, 1))
			for i := range 10 {
				j.Slot(key(i), 1).Set(quota.Counts{Total: quota.Units(i)})
			}
			j.Close()
			path := filepath.Join(dir, FileName)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b = c.damage(b)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			j, err = Open(config(dir, 2))
			if j == nil || err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v; want a journal and an error with %q", err, c.says)
			}
			defer j.Close()
			check := func(j *Journal) {
				t.Helper()
				var got []int
				for _, e := range j.Inherited() {
					if e.Key != key(int(e.Total)) || e.Incarnation != 1 || e.Epoch != 1 {
						t.Errorf("%+v", e)
					}
					got = append(got, int(e.Total))
				}
				if slices.Sort(got); !slices.Equal(got, c.whole) {
					t.Errorf("whole are %v; want %v", got, c.whole)
				}
			}
			check(j)
			if aside, err := os.ReadFile(path + ".corrupt"); err != nil || string(aside) != string(b) {
				t.Errorf("the damaged file is not aside as it was: %v", err)
			}
			j.Close()
			check(open(t, config(dir, 3))) // another death before a leader has them
		})
	}
}

// TestLostSteps: Open finds the slots beyond the steps of a header that a power failure kept old.
func TestLostSteps(t *testing.T) {
	for steps := range firstSteps {
		dir := t.TempDir()
		j := open(t, config(dir, 1))
		for i := range stepSlots + 1 {
			j.Slot(key(i), 1).Set(quota.Counts{Total: quota.Units(i)})
		}
		j.Close()
		path := filepath.Join(dir, FileName)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[unsafe.Offsetof(header{}.steps)] = byte(steps)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		for i := range quota.Incarnation(2) {
			j = open(t, config(dir, 2+i))
			if n, st := len(j.Inherited()), j.Stats(); n != stepSlots+1 || st.Used != n {
				t.Errorf("%d steps in the header, process %d: inherited %d counts of %d, %+v", steps, 2+i, n, stepSlots+1, st)
			}
			j.Close()
		}
	}
}

func TestForeign(t *testing.T) {
	dir := t.TempDir()
	j := open(t, config(dir, 1))
	j.Slot(key(1), 1).Set(quota.Counts{Total: 1})
	j.Close()
	cfg := config(dir, 2)
	cfg.Node = "n2"
	j, err := Open(cfg)
	if j == nil || err == nil || !strings.Contains(err.Error(), `belongs to node "n1", not "n2"`) {
		t.Fatal(err)
	}
	want(t, j)
	j.Close()
	cfg.Cluster, cfg.Incarnation = "d", 3
	if j, err = Open(cfg); j == nil || err == nil || !strings.Contains(err.Error(), `belongs to cluster "c", not "d"`) {
		t.Fatal(err)
	}
	j.Close()
}

func TestNoDirectory(t *testing.T) {
	j, err := Open(config(filepath.Join(t.TempDir(), "missing"), 1))
	if j != nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, %v", j, err)
	}
	cfg := config(t.TempDir(), 1)
	cfg.MaxSlots = 5000
	if j, err := Open(cfg); j != nil || err == nil {
		t.Errorf("%v, %v", j, err)
	}
}

// TestConcurrent claims, frees and counts from several goroutines.
func TestConcurrent(t *testing.T) {
	dir := t.TempDir()
	j := open(t, config(dir, 1))
	done := make(chan bool)
	for g := range 4 {
		go func() {
			defer func() { done <- true }()
			for i := range 5000 {
				s := j.Slot(key(g*10_000+i), 1)
				if s == nil {
					continue
				}
				s.Set(quota.Counts{Total: 1})
				s.Set(quota.Counts{Total: quota.Units(g*10_000 + i)})
				if i < 4990 {
					s.Free()
				}
			}
		}()
	}
	for range 4 {
		<-done
	}
	j.Close()
	got := open(t, config(dir, 2)).Inherited()
	if len(got) != 40 {
		t.Errorf("%d entries; want 40", len(got))
	}
	for _, e := range got {
		if e.Key != key(int(e.Total)) {
			t.Errorf("%+v", e)
		}
	}
}

// TestAllocations: Set does not allocate, because it is on the request path.
func TestAllocations(t *testing.T) {
	j := open(t, config(t.TempDir(), 1))
	s := j.Slot(key(1), 1)
	if n := testing.AllocsPerRun(1000, func() { s.Set(quota.Counts{Total: 1, Saved: 2, Before: 3, Back: 4, Window: 5}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSet(b *testing.B) {
	j, err := Open(config(b.TempDir(), 1))
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	s := j.Slot(key(1), 1)
	i := quota.Units(0)
	for b.Loop() {
		i++
		s.Set(quota.Counts{Total: i})
	}
}

func BenchmarkSlotFree(b *testing.B) {
	j, err := Open(config(b.TempDir(), 1))
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	k := key(1)
	for b.Loop() {
		j.Slot(k, 1).Free()
	}
}
