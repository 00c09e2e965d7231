package sharedlog

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/internal/syncdir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openTest(t testing.TB, dir string, wrap func(Store) Store) *Log {
	t.Helper()
	l, err := Open(filepath.Join(dir, "raft", "log.db"), Options{Wrap: wrap})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func group(t testing.TB, l *Log, id uint32) *Group {
	t.Helper()
	g, err := l.Group(id)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func entries(from, to uint64, size int) (out []*raft.Log) {
	for i := from; i <= to; i++ {
		out = append(out, &raft.Log{Index: i, Term: i / 10, Type: raft.LogCommand, Data: bytes.Repeat([]byte{byte(i)}, size), AppendedAt: time.Unix(int64(i), 0)})
	}
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stateOf returns all that a log holds, as text by place.
func stateOf(t testing.TB, l *Log) map[string]string {
	t.Helper()
	out := map[string]string{}
	for id, g := range l.groups {
		first, _ := g.FirstIndex()
		last, _ := g.LastIndex()
		for i := first; i != 0 && i <= last; i++ {
			var e raft.Log
			if err := g.GetLog(i, &e); err != nil || e.Index != i {
				t.Fatalf("group %d entry %d of %d to %d: %+v, %v", id, i, first, last, e, err)
			}
			out[fmt.Sprintf("%d/%d", id, i)] = fmt.Sprintf("%d %d %s %s", e.Term, e.Type, e.Data, e.Extensions)
		}
		for s, v := range g.stable {
			if v != nil {
				out[fmt.Sprintf("%d:%d", id, s)] = string(v)
			}
		}
	}
	return out
}

// TestAgainstModel runs random calls of several groups, and compares what is read, before and after
// the log is opened again.
func TestAgainstModel(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(3, 4))
	type model struct {
		first, last uint64
		terms       map[uint64]uint64
		vote        string
	}
	want := map[uint32]*model{}
	for _, id := range []uint32{0, 1, 2, 255, MaxGroup} {
		want[id] = &model{terms: map[uint64]uint64{}}
	}
	ids := slices.Sorted(maps.Keys(want))
	l := openTest(t, dir, nil)
	for step := range 400 {
		id := ids[rng.IntN(len(ids))]
		m, g := want[id], group(t, l, id)
		switch act := rng.IntN(10); {
		case act < 5: // append
			from, term := m.last+1, uint64(step)
			if m.last == 0 || rng.IntN(10) == 0 { // after a snapshot
				from += uint64(rng.IntN(3) * 100)
			}
			if m.last != 0 && from > m.last+1 || m.last == 0 {
				m.first = from
				clear(m.terms)
			}
			var all []*raft.Log
			for i := from; i < from+uint64(1+rng.IntN(20)); i++ {
				all = append(all, &raft.Log{Index: i, Term: term, Data: make([]byte, rng.IntN(3000))})
				m.terms[i], m.last = term, i
			}
			must(t, g.StoreLogs(all))
		case act < 6 && m.last != 0: // a snapshot
			to := m.first + uint64(rng.Int64N(int64(m.last-m.first+1)))
			must(t, g.DeleteRange(m.first, to))
			for i := m.first; i <= to; i++ {
				delete(m.terms, i)
			}
			if m.first = to + 1; m.first > m.last {
				m.first, m.last = 0, 0
			}
		case act < 7 && m.last != 0: // entries that a new leader does not have
			from := m.first + uint64(rng.Int64N(int64(m.last-m.first+1)))
			must(t, g.DeleteRange(from, m.last))
			for i := from; i <= m.last; i++ {
				delete(m.terms, i)
			}
			if m.last = from - 1; m.last < m.first {
				m.first, m.last = 0, 0
			}
		case act < 9:
			m.vote = fmt.Sprint("n", step)
			must(t, g.Set([]byte("LastVoteCand"), []byte(m.vote)))
		case rng.IntN(4) == 0:
			must(t, g.MarkDropped())
			if g.Holds() {
				t.Fatalf("group %d is marked, and is there", id)
			}
			must(t, g.Erase())
			*m = model{terms: map[uint64]uint64{}}
		default:
			must(t, l.Close())
			l = openTest(t, dir, nil)
		}
		for id, m := range want {
			g := group(t, l, id)
			first, _ := g.FirstIndex()
			last, _ := g.LastIndex()
			vote, err := g.Get([]byte("LastVoteCand"))
			if first != m.first || last != m.last || string(vote) != m.vote || (m.vote == "") != errors.Is(err, raftboltdb.ErrKeyNotFound) {
				t.Fatalf("step %d group %d: %d to %d, vote %q (%v); want %+v", step, id, first, last, vote, err, m)
			}
			if g.Holds() != (m.last != 0 || m.vote != "") {
				t.Fatalf("step %d group %d: holds %v", step, id, g.Holds())
			}
			for i, term := range m.terms {
				var e raft.Log
				if err := g.GetLog(i, &e); err != nil || e.Term != term {
					t.Fatalf("step %d group %d entry %d: %+v, %v", step, id, i, e, err)
				}
			}
		}
	}
}

// gate is a store whose transactions wait for the test, and which notes their order.
type gate struct {
	Store
	began chan string   // what each transaction does, sent when it begins
	step  chan struct{} // receives once for each transaction
	open  chan struct{} // closed at the end: nothing waits any more
}

func gated(s Store) *gate {
	return &gate{s, make(chan string), make(chan struct{}), make(chan struct{})}
}

func (g *gate) wait(what string) {
	select {
	case g.began <- what:
	case <-g.open:
	}
	select {
	case <-g.step:
	case <-g.open:
	}
}

func (g *gate) StoreLogs(e []*raft.Log) error {
	g.wait(fmt.Sprintf("append %d", len(e)))
	return g.Store.StoreLogs(e)
}

func (g *gate) DeleteRange(from, to uint64) error {
	g.wait(fmt.Sprintf("delete %d", to-from+1))
	return g.Store.DeleteRange(from, to)
}

// await waits until n calls of groups wait for the committer.
func (l *Log) await(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		l.mu.Lock()
		waiting := len(l.deletions)
		for _, g := range l.groups {
			waiting += len(g.writes)
		}
		l.mu.Unlock()
		if waiting == n {
			return
		}
	}
	t.Fatalf("%d calls do not wait after a minute", n)
}

// script runs calls one after the other while the first transaction is held, and then checks the
// transactions that the log makes of them.
func script(t *testing.T, fill uint64, calls []func(l *Log) error, want ...string) {
	t.Helper()
	var s *gate
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	must(t, group(t, l, 0).StoreLogs(entries(1, fill, 10)))
	must(t, l.Close())
	l = openTest(t, dir, func(real Store) Store { s = gated(real); return s })
	t.Cleanup(func() { close(s.open) }) // before the log is closed
	var wg sync.WaitGroup
	for n, f := range calls {
		wg.Go(func() {
			if err := f(l); err != nil {
				t.Error(err)
			}
		})
		if n > 0 {
			l.await(t, n)
		} else if got := <-s.began; got != want[0] {
			t.Fatalf("first %q, want %q", got, want[0])
		}
	}
	for _, next := range want[1:] {
		s.step <- struct{}{}
		if got := <-s.began; got != next {
			t.Fatalf("then %q, want %q of %q", got, next, want)
		}
	}
	s.step <- struct{}{}
	wg.Wait()
}

func appendTo(id uint32, from, to uint64, size int) func(l *Log) error {
	return func(l *Log) error {
		g, err := l.Group(id)
		return errors.Join(err, g.StoreLogs(entries(from, to, size)))
	}
}

// TestGroupsShareCommits checks that calls of many groups that wait become one transaction, votes
// among them.
func TestGroupsShareCommits(t *testing.T) {
	calls := []func(l *Log) error{appendTo(1, 1, 1, 10)}
	for id := range uint32(64) {
		calls = append(calls, appendTo(id+2, 1, 2, 10))
	}
	calls = append(calls, func(l *Log) error { g, _ := l.Group(99); return g.SetUint64([]byte("CurrentTerm"), 7) })
	script(t, 1, calls, "append 1", "append 129")
}

// TestTurns checks that a group whose calls are large does not delay the others: one call of each
// group is taken in turns.
func TestTurns(t *testing.T) {
	const large = 3 << 20
	script(t, 1, []func(l *Log) error{
		appendTo(9, 1, 1, 10),
		appendTo(1, 1, 1, large), appendTo(1, 2, 2, large), appendTo(1, 3, 3, large),
		appendTo(2, 1, 5, 10), appendTo(3, 1, 5, 10),
	}, "append 1", "append 11", "append 1", "append 1")
}

// TestDeletionsDoNotStarveAppends checks that a long deletion goes in pieces, and that waiting
// appends come between them.
func TestDeletionsDoNotStarveAppends(t *testing.T) {
	cut := func(l *Log) error { g, _ := l.Group(0); return g.DeleteRange(1, 3*pieceLen) }
	script(t, 4*pieceLen, []func(l *Log) error{cut, appendTo(0, 4*pieceLen+1, 4*pieceLen+1, 10), appendTo(1, 1, 1, 10)},
		fmt.Sprint("delete ", pieceLen), "append 2", fmt.Sprint("delete ", pieceLen), fmt.Sprint("delete ", pieceLen))
}

// TestDeletionLeavesNoGap checks from which end pieces go, and that the middle is refused without
// harm to the log.
func TestDeletionLeavesNoGap(t *testing.T) {
	l := openTest(t, t.TempDir(), nil)
	g := group(t, l, 3)
	must(t, g.StoreLogs(entries(1, 100, 10)))
	if err := g.DeleteRange(5, 10); !errors.Is(err, errMiddle) {
		t.Errorf("the middle: %v", err)
	}
	must(t, g.DeleteRange(1, 5))
	must(t, g.DeleteRange(95, 1000))
	must(t, g.DeleteRange(200, 300))
	first, _ := g.FirstIndex()
	last, _ := g.LastIndex()
	if first != 6 || last != 94 {
		t.Errorf("%d to %d", first, last)
	}
}

// faulty is a store whose transactions fail on demand.
type faulty struct {
	Store
	fail func(do func() error) error
}

func (f faulty) StoreLogs(e []*raft.Log) error {
	return f.fail(func() error { return f.Store.StoreLogs(e) })
}

func (f faulty) DeleteRange(from, to uint64) error {
	return f.fail(func() error { return f.Store.DeleteRange(from, to) })
}

// TestFault checks that a failed transaction fails all calls, and that after Reopen the log holds
// what was acknowledged and nothing else, whether or not the failed transaction reached the file.
func TestFault(t *testing.T) {
	for name, written := range map[string]bool{"nothing written": false, "written, and the sync failed": true} {
		for _, deletion := range []bool{false, true} {
			t.Run(fmt.Sprint(name, deletion), func(t *testing.T) {
				full := false
				l := openTest(t, t.TempDir(), func(s Store) Store {
					return faulty{s, func(do func() error) error {
						if !full {
							return do()
						}
						if written {
							must(t, do())
						}
						return syscall.ENOSPC
					}}
				})
				g, other := group(t, l, 1), group(t, l, 2)
				must(t, g.StoreLogs(entries(1, 50, 100)))
				must(t, other.Found(4, &raft.Log{Index: 1, Term: 1}))
				want := stateOf(t, l)
				for round := range 3 {
					full = true
					var err error
					if deletion {
						err = g.DeleteRange(1, 20)
					} else {
						err = g.StoreLogs(entries(51, 60, 100))
					}
					if !errors.Is(err, syscall.ENOSPC) {
						t.Fatalf("round %d: %v", round, err)
					}
					if err := other.SetUint64([]byte("CurrentTerm"), 5); !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.ENOSPC) {
						t.Fatalf("round %d, another group: %v", round, err)
					}
					if !deletion || !written { // reads go on
						if got := stateOf(t, l); !maps.Equal(got, want) {
							t.Fatalf("round %d: %d values, want %d", round, len(got), len(want))
						}
					} else if err := g.GetLog(1, new(raft.Log)); err == nil || errors.Is(err, raft.ErrLogNotFound) {
						t.Fatalf("round %d: an entry that may be deleted or not: %v", round, err)
					}
					full = false
					must(t, l.Reopen())
					if got := stateOf(t, l); !maps.Equal(got, want) {
						t.Fatalf("round %d, reopened: %d values, want %d", round, len(got), len(want))
					}
				}
				must(t, l.Reopen()) // of a sound log
				must(t, g.StoreLogs(entries(51, 60, 200)))
				want = stateOf(t, l)
				must(t, l.Close())
				l2, err := Open(l.path, Options{})
				must(t, err)
				defer l2.Close()
				if got := stateOf(t, l2); !maps.Equal(got, want) || l.Stats().Reopened != 3 {
					t.Errorf("opened again: %d values, want %d; %+v", len(got), len(want), l.Stats())
				}
			})
		}
	}
}

// TestFaultAnswersAllWaiting checks that nobody waits for a failed log: neither writes nor
// deletions.
func TestFaultAnswersAllWaiting(t *testing.T) {
	var s *gate
	dir := t.TempDir()
	l := openTest(t, dir, func(real Store) Store {
		s = gated(faulty{real, func(func() error) error { return syscall.EIO }})
		return s
	})
	t.Cleanup(func() { close(s.open) }) // before the log is closed
	var wg sync.WaitGroup
	fails := func(f func() error) {
		wg.Go(func() {
			if err := f(); !errors.Is(err, syscall.EIO) {
				t.Errorf("error: %v", err)
			}
		})
	}
	fails(func() error { return group(t, l, 1).StoreLogs(entries(1, 2, 10)) })
	<-s.began
	for id := range uint32(20) {
		fails(func() error { return group(t, l, id).SetUint64([]byte("CurrentTerm"), 1) })
		fails(func() error { return group(t, l, id).Erase() })
	}
	l.await(t, 40)
	s.step <- struct{}{}
	wg.Wait()
	must(t, l.Close())
	if err := group(t, l, 1).StoreLog(&raft.Log{Index: 1}); err == nil {
		t.Error("a closed log takes writes")
	}
	if err := l.Reopen(); !errors.Is(err, ErrClosed) {
		t.Errorf("reopened after Close: %v", err)
	}
}

// TestNameIsSynced checks that the directories above a new file are synced after its name is there.
func TestNameIsSynced(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows syncs no directories")
	}
	dir := t.TempDir()
	names := map[string][]string{}
	defer syncdir.Observe(func(dir string) {
		entries, _ := os.ReadDir(dir)
		names[dir] = nil
		for _, e := range entries {
			names[dir] = append(names[dir], e.Name())
		}
	})()
	must(t, openTest(t, dir, nil).Close())
	if got := names[filepath.Join(dir, "raft")]; !slices.Equal(got, []string{"log.db"}) {
		t.Errorf("synced in raft: %v", got)
	}
	if got := names[dir]; !slices.Contains(got, "raft") {
		t.Errorf("synced: %v", got)
	}
}

// TestHolds checks that a group is there if the log holds anything of it; that the file exists does
// not count.
func TestHolds(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "raft", "log.db")
	holds := func(id uint32, want bool) {
		t.Helper()
		if got, err := Holds(path, id); err != nil || got != want {
			t.Errorf("group %d: %v, %v", id, got, err)
		}
	}
	holds(1, false)
	l := openTest(t, dir, nil)
	must(t, l.Close())
	holds(1, false)
	l = openTest(t, dir, nil)
	must(t, group(t, l, 1).SetUint64([]byte("CurrentTerm"), 1))
	must(t, group(t, l, 2).StoreLogs(entries(7, 8, 1)))
	must(t, group(t, l, 3).StoreLogs(entries(7, 8, 1)))
	must(t, group(t, l, 3).MarkDropped())
	if held := l.Held(); !slices.Equal(held, []uint32{1, 2}) || !slices.Equal(l.Dropped(), []uint32{3}) {
		t.Errorf("held %v, dropped %v", held, l.Dropped())
	}
	must(t, l.Close())
	holds(1, true)
	holds(2, true)
	holds(3, false)
	holds(4, false)
	must(t, os.Truncate(path, 100))
	if _, err := Holds(path, 1); !errors.Is(err, ErrDamaged) {
		t.Errorf("damaged: %v", err)
	}
}
