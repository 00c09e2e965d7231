package account

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

func restored(t testing.TB, data []byte) *Store {
	t.Helper()
	s := New(Bounds{})
	if err := s.Restore(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	return s
}

// fullWorld has one of everything that a snapshot can hold.
func fullWorld(t testing.TB) *world {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 5, Limit: 9, Refill: Refill{Units: 1, Interval: 60, Offset: 7}, Lifetime: time.Hour})
	q := w.load("q", Policy{Default: 5, Limit: 9, Options: AbsoluteResource})
	w.must(op("a", 0, p), op("b", -3, q), op("c", -5, nil).to(Zero).with(IgnorePolicyBounds))
	w.apply(w.store, Command{Apply: w.request("user:me", "r1", op("a", 1, q), op("d", 1, p))})
	w.apply(w.store, Command{Begin: &Begin{Tx: TxID{1}, Home: 1, Part: *w.request("user:me", "r2", op("a", 1, nil), op("e", 0, q))}})
	w.apply(w.store, Command{Begin: &Begin{Tx: TxID{2}, Home: 1, Part: *w.request("user:me", "r3", op("d", 1, nil))}})
	w.apply(w.store, Command{Decide: &Decide{Tx: TxID{2}, Commit: true, Results: []Result{{New: 7, Previous: 6, Adjusted: 6}}}})
	w.apply(w.store, Command{Prepare: &Prepare{Tx: Tx{ID: TxID{3}, Home: 2}, Part: *w.request("", "", op("b", 1, nil))}})
	w.apply(w.store, Command{Finish: &Finish{Tx: TxID{4}}})
	return w
}

// TestSnapshotKeepsEverything restores a store, and goes on in both.
func TestSnapshotKeepsEverything(t *testing.T) {
	w := fullWorld(t)
	data := snapshotOf(t, w.store.View())
	other := restored(t, data)
	check(t, "the same bytes", bytes.Equal(snapshotOf(t, other.View()), data), true)
	for i, c := range []Command{
		{Apply: w.request("user:me", "r1", op("a", 1, testRef("q")), op("d", 1, testRef("p")))},
		{Apply: w.request("", "", op("a", 1, nil))},
		{Decide: &Decide{Tx: TxID{1}, Commit: true}},
		{Forget: &TxID{2}},
		{Finish: &Finish{Tx: TxID{3}, Commit: true}},
		{Prepare: &Prepare{Tx: Tx{ID: TxID{4}, Home: 2}, Part: *w.request("", "", op("b", 1, nil))}},
		{Collect: &Collect{Max: 100}},
	} {
		w.pass(50 * time.Minute)
		one, two := w.apply(w.store, c), w.apply(other, c)
		check(t, fmt.Sprint("command ", i), fmt.Sprint(two), fmt.Sprint(one))
	}
	check(t, "the same bytes afterwards", bytes.Equal(snapshotOf(t, other.View()), snapshotOf(t, w.store.View())), true)
	checkIndexes(t, other)
}

// TestViewStays: a view does not change with the store, also while it is written.
func TestViewStays(t *testing.T) {
	w := fullWorld(t)
	v := w.store.View()
	data := snapshotOf(t, v)
	done := make(chan []byte)
	go func() {
		var b bytes.Buffer
		for range 50 {
			b.Reset()
			_ = v.Write(&b) // to memory
		}
		done <- b.Bytes()
	}()
	for i := range 2000 {
		w.must(op(fmt.Sprint("new", i), 1, testRef("q")), op("c", 1, nil).with(IgnorePolicyBounds))
	}
	check(t, "the same bytes", bytes.Equal(<-done, data), true)
}

// TestRestoreRefusesDamage: what is cut off or changed anywhere is an error, and the store
// stays as it was.
func TestRestoreRefusesDamage(t *testing.T) {
	data := snapshotOf(t, fullWorld(t).store.View())
	w := newWorld(t)
	w.must(op("mine", 1, w.load("p", Policy{Limit: 9})))
	before := w.bytes()
	for n := range data {
		err := w.store.Restore(bytes.NewReader(data[:n]))
		if err == nil || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d of %d bytes: %v", n, len(data), err)
		}
		for _, bit := range []byte{1, 0x80} {
			bad := bytes.Clone(data)
			bad[n] ^= bit
			if err := w.store.Restore(bytes.NewReader(bad)); err == nil {
				t.Fatalf("byte %d is wrong, and the snapshot was restored", n)
			}
		}
	}
	check(t, "the store as it was", bytes.Equal(w.bytes(), before), true)
	err := w.store.Restore(strings.NewReader("something else"))
	check(t, "message", err.Error(), `restore accounts: record 0: begins with "somethi", not with "\x00acct1\n": not a snapshot of accounts`)
}

// TestWriteFails: an error of the writer is told.
func TestWriteFails(t *testing.T) {
	r, wr := io.Pipe()
	_ = r.CloseWithError(errors.New("disk full"))
	err := fullWorld(t).store.View().Write(wr)
	check(t, "message", err.Error(), "write accounts: disk full")
}
