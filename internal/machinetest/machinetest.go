// Package machinetest tests replicated state machines: two replicas that apply the same log hold the
// same state, also when one was restored from a snapshot on the way.
package machinetest

import (
	"bytes"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
)

// Machine is the state of a Raft group.
type Machine interface {
	Apply(index, term uint64, data []byte) any
	Snapshot() (func(io.Writer) error, error)
	Restore(r io.Reader) error
}

// Snapshot returns the machine's snapshot.
func Snapshot(t testing.TB, m Machine) []byte {
	t.Helper()
	write, err := m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Replicate applies the log to two machines, of which one is replaced now and then by a new one that
// is restored from the other's snapshot. It compares results, as text shows them, and snapshots after
// every entry.
func Replicate(t *testing.T, fresh func() Machine, log [][]byte, text func(result any) string) {
	t.Helper()
	a, b := fresh(), fresh()
	for i, entry := range log {
		got, want := text(b.Apply(uint64(i+1), 1, entry)), text(a.Apply(uint64(i+1), 1, entry))
		if got != want {
			t.Fatalf("entry %d: results %s and %s", i, got, want)
		}
		sa, sb := Snapshot(t, a), Snapshot(t, b)
		if !bytes.Equal(sa, sb) {
			t.Fatalf("after entry %d of %d the snapshots differ (%d and %d bytes)", i, len(log), len(sa), len(sb))
		}
		if i%7 == 3 {
			b = fresh()
			if err := b.Restore(bytes.NewReader(sa)); err != nil {
				t.Fatal(err)
			}
			if again := Snapshot(t, b); !bytes.Equal(sa, again) {
				t.Fatalf("after entry %d: a restored replica has another snapshot", i)
			}
		}
	}
}

// Restore restores arbitrary bytes into a new machine. If that fails, the state must be unchanged; if it succeeds, the
// state must survive another snapshot and restore.
func Restore(t *testing.T, fresh func() Machine, data []byte) {
	t.Helper()
	a, b := fresh(), fresh()
	empty := Snapshot(t, a)
	if err := a.Restore(bytes.NewReader(data)); err != nil {
		if !bytes.Equal(Snapshot(t, a), empty) {
			t.Errorf("a broken snapshot changed the state (%v)", err)
		}
		return
	}
	again := Snapshot(t, a)
	if err := b.Restore(bytes.NewReader(again)); err != nil || !bytes.Equal(Snapshot(t, b), again) {
		t.Errorf("read, written and read again: %v", err)
	}
}

// Garbage returns up to 39 random bytes.
func Garbage(rng *rand.Rand) []byte {
	data := make([]byte, rng.IntN(40))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	return data
}

// Seeds returns how many seeds a test plays: one with -short, which is for the race detector.
func Seeds(all uint64) uint64 {
	if testing.Short() {
		return 1
	}
	return all
}

// Heap returns the bytes of live objects, after a collection.
func Heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
