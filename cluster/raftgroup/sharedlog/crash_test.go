package sharedlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/internal/testspeed"
)

const pageSize = 4096

// commit is one transaction: the file before and after it, and what the log holds in both.
type commit struct {
	before, after []byte
	had, has      map[uint64]string
}

// witness is a store that keeps the file before and after every transaction.
type witness struct {
	Store
	t       *testing.T
	path    string
	holds   map[uint64]string
	commits []commit
}

func (w *witness) file() []byte {
	b, err := os.ReadFile(w.path)
	if err != nil {
		w.t.Error(err)
	}
	return b
}

func (w *witness) witness(do func() error, change func(map[uint64]string)) error {
	c := commit{before: w.file(), had: w.holds, has: maps.Clone(w.holds)}
	err := do()
	change(c.has)
	c.after, w.holds = w.file(), c.has
	w.commits = append(w.commits, c)
	return err
}

func (w *witness) StoreLogs(all []*raft.Log) error {
	return w.witness(func() error { return w.Store.StoreLogs(all) }, func(m map[uint64]string) {
		for _, l := range all {
			m[l.Index] = fmt.Sprintf("%d %d %s", l.Term, l.Type, l.Data)
		}
	})
}

func (w *witness) DeleteRange(from, to uint64) error {
	return w.witness(func() error { return w.Store.DeleteRange(from, to) }, func(m map[uint64]string) {
		maps.DeleteFunc(m, func(k uint64, _ string) bool { return from <= k && k <= to })
	})
}

// work runs appends, votes, truncations and deletions of several groups at once, and returns every
// transaction that the log made of them.
func work(t *testing.T, seed uint64, rounds int) []commit {
	t.Helper()
	var w *witness
	dir := t.TempDir()
	l := openTest(t, dir, func(s Store) Store {
		w = &witness{Store: s, t: t, path: filepath.Join(dir, "raft", "log.db"), holds: map[uint64]string{}}
		return w
	})
	var wg sync.WaitGroup
	for id := range uint32(4) {
		rng, g := rand.New(rand.NewPCG(seed, uint64(id))), group(t, l, id)
		wg.Go(func() {
			for range rounds {
				first, _ := g.FirstIndex()
				last, _ := g.LastIndex()
				var err error
				switch act := rng.IntN(12); {
				case act == 0:
					err = g.SetUint64([]byte("CurrentTerm"), rng.Uint64())
				case act == 1 && last > 0:
					err = g.DeleteRange(first, first+uint64(rng.Int64N(int64(last-first+1))))
				case act == 2 && last > 0:
					err = g.DeleteRange(first+uint64(rng.Int64N(int64(last-first+1))), last)
				default:
					err = g.StoreLogs(entries(last+1, last+uint64(1+rng.IntN(6)), 1+rng.IntN(2000)))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	must(t, l.Close())
	return w.commits
}

// pages returns the numbers of the pages that a commit wrote: the data, and last the meta page.
func (c *commit) pages(t *testing.T) (data []int, meta int) {
	t.Helper()
	meta = -1
	for p := 0; p*pageSize < len(c.after); p++ {
		at := p * pageSize
		if at < len(c.before) && bytes.Equal(c.before[at:at+pageSize], c.after[at:at+pageSize]) {
			continue
		}
		if p >= 2 {
			data = append(data, p)
		} else if meta >= 0 {
			t.Fatal("a commit wrote both meta pages")
		} else {
			meta = p
		}
	}
	if meta < 0 {
		t.Fatal("a commit wrote no meta page")
	}
	return data, meta
}

// cuts calls f with files as a crash in the middle of a commit may leave them. bbolt writes the
// pages of data in order, syncs, writes the meta page and syncs: a killed process leaves a prefix of
// that; a power cut leaves any sectors of what was not synced.
func (c *commit) cuts(t *testing.T, rng *rand.Rand, f func(how string, file []byte, holds map[uint64]string)) {
	data, meta := c.pages(t)
	base := slices.Clone(c.before)
	base = append(base, make([]byte, len(c.after)-len(base))...)
	put := func(b []byte, from, to int) { copy(b[from:to], c.after[from:to]) }
	withData := func() []byte {
		b := slices.Clone(base)
		for _, p := range data {
			put(b, p*pageSize, (p+1)*pageSize)
		}
		return b
	}
	f("before the first write", c.before, c.had)
	for range min(4, len(data)) { // killed in the middle of a page
		b, n := slices.Clone(base), rng.IntN(len(data))
		for _, p := range data[:n] {
			put(b, p*pageSize, (p+1)*pageSize)
		}
		put(b, data[n]*pageSize, data[n]*pageSize+rng.IntN(pageSize+1))
		f("killed", b, c.had)
	}
	for range 4 { // power cut before the first sync
		b := slices.Clone(base)
		for _, p := range data {
			for s := p * pageSize; s < (p+1)*pageSize; s += 512 {
				if rng.IntN(2) == 0 {
					put(b, s, s+512)
				}
			}
		}
		if rng.IntN(3) == 0 && len(c.before) < len(c.after) {
			b = b[:len(c.before)] // the new size was not synced either
		}
		f("power cut in the data", b, c.had)
	}
	f("all data written", withData(), c.had)
	at := meta * pageSize
	for range 3 { // in the middle of the meta page
		b := withData()
		n := 16 + rng.IntN(64) // bbolt's meta has 64 bytes behind the page's header
		put(b, at, at+n)
		holds := c.had
		if bytes.Equal(b[at:at+80], c.after[at:at+80]) {
			holds = c.has
		}
		f("torn meta page", b, holds)
	}
	f("written", c.after, c.has)
}

// scratch returns a directory for files that are opened once. Memory will do.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "sharedlog")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// content opens a file and returns what it holds.
func content(path string) (map[uint64]string, error) {
	l, err := Open(path, Options{})
	if err != nil {
		return nil, err
	}
	out := map[uint64]string{}
	for id, g := range l.groups {
		for i := g.first; i != 0 && i <= g.last; i++ {
			e, readErr := l.read(uint64(id)<<indexBits | i)
			if readErr != nil {
				return nil, errors.Join(readErr, l.Close())
			}
			out[uint64(id)<<indexBits|i] = fmt.Sprintf("%d %d %s", e.Term, e.Type, e.Data)
		}
		for s, v := range g.stable {
			if v != nil {
				out[stableKey(id, slot(s))] = fmt.Sprintf("0 0 %s", v)
			}
		}
	}
	return out, l.Close()
}

// TestCrashCuts cuts every transaction at many places, and checks that the log opens with exactly
// what was acknowledged before it.
func TestCrashCuts(t *testing.T) {
	if testing.Short() {
		t.Skip("runs long in one goroutine; left out by -short")
	}
	seeds, rounds := 1, 15
	if testspeed.IsFull() {
		seeds, rounds = 4, 60
	}
	path := filepath.Join(scratch(t), "log.db")
	for seed := range uint64(seeds) {
		rng, cuts := rand.New(rand.NewPCG(seed, 99)), 0
		commits := work(t, seed, rounds)
		for n, c := range commits {
			c.cuts(t, rng, func(how string, file []byte, holds map[uint64]string) {
				cuts++
				must(t, os.WriteFile(path, file, 0o600))
				got, err := content(path)
				if err != nil || !maps.Equal(got, holds) {
					t.Fatalf("seed %d commit %d, %s: %d entries and values, want %d (%v)", seed, n, how, len(got), len(holds), err)
				}
			})
		}
		t.Logf("seed %d: %d transactions, %d cuts", seed, len(commits), cuts)
		if cuts < 100 {
			t.Errorf("only %d cuts: too little is tested", cuts)
		}
	}
}

// pointers returns where the file holds numbers of pages, in branch pages and in the roots of
// buckets. A flip in one may lead to a page that an earlier transaction left: whole, and outdated.
func pointers(file []byte) map[int]bool {
	out := map[int]bool{}
	for page := 0; page < len(file); page += pageSize {
		flags, count := binary.NativeEndian.Uint16(file[page+8:]), int(binary.NativeEndian.Uint16(file[page+10:]))
		for k := range count {
			at := page + 16 + 16*k
			if at+16 > len(file) {
				break
			}
			from := -1
			switch {
			case flags == 1: // a branch
				from = at + 8
			case flags == 2 && binary.NativeEndian.Uint32(file[at:]) == 1: // a bucket in a leaf
				from = at + int(binary.NativeEndian.Uint32(file[at+4:])+binary.NativeEndian.Uint32(file[at+8:]))
			}
			for n := range 8 {
				if from >= 0 {
					out[from+n] = true
				}
			}
		}
	}
	return out
}

// TestDamage flips bits and cuts files. Every log that opens holds all that was acknowledged, or, if
// the newer meta page is hit, all but the last transaction. Only a flip in the number of a page may
// go unnoticed.
func TestDamage(t *testing.T) {
	if testing.Short() {
		t.Skip("runs long in one goroutine; left out by -short")
	}
	commits := work(t, 7, 5)
	last := commits[len(commits)-1]
	_, meta := last.pages(t)
	path := filepath.Join(scratch(t), "log.db")
	refused, opened, outdated := 0, 0, 0
	numbers := pointers(last.after)
	try := func(what string, file []byte, inMeta, inNumber bool) {
		t.Helper()
		must(t, os.WriteFile(path, file, 0o600))
		got, err := content(path)
		switch {
		case errors.Is(err, ErrDamaged):
			refused++
		case err != nil:
			t.Errorf("%s: %v; want ErrDamaged or all that was acknowledged", what, err)
		case maps.Equal(got, last.has) || inMeta && maps.Equal(got, last.had):
			opened++
		case inNumber:
			outdated++
		default:
			t.Errorf("%s: opened with %d entries and values of %d; as before the last transaction: %v; lacks %x", what, len(got), len(last.has), maps.Equal(got, last.had), lacking(got, last.has))
		}
	}
	step := 997
	if testspeed.IsFull() {
		step = 1
	}
	for at := 0; at < len(last.after); at += step {
		if at >= 1 && step == 1 && allZero(last.after[at-1:min(at+1, len(last.after))]) && at%64 != 0 {
			continue // unused space
		}
		b := slices.Clone(last.after)
		b[at] ^= 1 << (at % 8)
		try(fmt.Sprint("flip at ", at), b, at/pageSize == meta, numbers[at])
	}
	for at := 0; at < len(last.after); at += step {
		try(fmt.Sprint("cut at ", at), last.after[:at], at < 2*pageSize, false)
		if step == 1 {
			at += 512 // nothing depends on the exact byte within a sector
		}
	}
	t.Logf("%d bytes: %d refused, %d opened with everything, %d of %d numbers of pages led to an outdated page", len(last.after), refused, opened, outdated, len(numbers))
	if refused == 0 || opened == 0 {
		t.Error("nothing is tested")
	}
}

// TestDamageOfSmallLogs flips every bit of the headers and keys of files that hold few entries: inline
// in the page of the buckets, and in a page of their own. No flip may hide an entry.
func TestDamageOfSmallLogs(t *testing.T) {
	path := filepath.Join(scratch(t), "log.db")
	for _, tt := range []struct{ entries, size int }{{1, 10}, {2, 10}, {4, 10}, {1, 2000}, {2, 900}, {4, 400}} {
		dir := t.TempDir()
		l := openTest(t, dir, nil)
		must(t, group(t, l, 3).StoreLogs(entries(1, uint64(tt.entries), tt.size)))
		must(t, l.Close())
		file, err := os.ReadFile(filepath.Join(dir, "raft", "log.db"))
		must(t, err)
		newest, numbers := meta(file), pointers(file)
		step, refused := 7, 0
		if testspeed.IsFull() {
			step = 1
		}
		for bit := 0; bit < 8*len(file); bit += step {
			at := bit / 8
			if at%pageSize > 512 || allZero(file[max(at-64, 0):min(at+64, len(file))]) {
				continue
			}
			b := slices.Clone(file)
			b[at] ^= 1 << (bit % 8)
			must(t, os.WriteFile(path, b, 0o600))
			got, err := content(path)
			switch {
			case errors.Is(err, ErrDamaged):
				refused++
			case err != nil:
				t.Errorf("%+v: flip of bit %d at %d: %v; want ErrDamaged or all entries", tt, bit%8, at, err)
			case len(got) < tt.entries && at/pageSize != newest && !numbers[at]:
				t.Errorf("%+v: flip of bit %d at %d: opened with %d entries", tt, bit%8, at, len(got))
			}
		}
		if refused < 100 {
			t.Errorf("%+v: only %d flips were refused: too little is tested", tt, refused)
		}
	}
}

// meta returns the number of the newer meta page of a file.
func meta(file []byte) int {
	txid := func(page int) uint64 { return binary.NativeEndian.Uint64(file[page*pageSize+16+48:]) }
	if txid(1) > txid(0) {
		return 1
	}
	return 0
}

// lacking returns the sorted keys of which got does not hold what want holds.
func lacking(got, want map[uint64]string) (keys []uint64) {
	for k, v := range want {
		if got[k] != v {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

func allZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
