package forgetfs

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func newFile(d *Disk, name string) *node {
	n := d.newNode(syscall.S_IFREG | 0o600)
	d.root.set(name, n)
	return n
}

func names(d *Disk) string { return strings.Join(slices.Sorted(maps.Keys(d.root.entries)), " ") }

// TestLose checks that a power failure leaves everything that was synced, and that every state in
// between comes up.
func TestLose(t *testing.T) {
	d := NewDisk()
	f := newFile(d, "synced")
	f.write(bytes.Repeat([]byte{1}, 2*pageSize), 0)
	f.sync()
	d.root.sync()
	f.write(bytes.Repeat([]byte{2}, sectorSize), 512) // the second sector
	f.write(bytes.Repeat([]byte{3}, sectorSize), 2*pageSize)
	g := newFile(d, "new")
	g.write([]byte("x"), 0)
	g.sync() // its content, not its name
	d.root.rename("new", d.root, "renamed")
	sizes, second, found := map[int]bool{}, map[byte]bool{}, map[string]bool{}
	for seed := range uint64(200) {
		left, _ := d.Lose(rand.New(rand.NewPCG(seed, 1)))
		f := left.root.entries["synced"]
		if f == nil {
			t.Fatalf("seed %d: a synced name is gone: %s", seed, names(left))
		}
		sizes[len(f.live)], second[f.live[600]], found[names(left)] = true, true, true
		for at := range 2 * pageSize {
			if b := f.live[at]; b != 1 && (b != 2 || at/sectorSize != 1) {
				t.Fatalf("seed %d: byte %d is %d", seed, at, b)
			}
		}
		if !bytes.Equal(f.live, f.kept) || len(f.dirty) != 0 {
			t.Fatalf("seed %d: what is left is not all synced", seed)
		}
		if g := left.root.entries["renamed"]; g != nil && string(g.live) != "x" {
			t.Fatalf("seed %d: synced content is gone: %q", seed, g.live)
		}
	}
	if want := map[int]bool{2 * pageSize: true, 2*pageSize + sectorSize: true}; !maps.Equal(sizes, want) {
		t.Errorf("sizes %v, want %v", sizes, want)
	}
	if want := map[byte]bool{1: true, 2: true}; !maps.Equal(second, want) {
		t.Errorf("contents %v, want %v", second, want)
	}
	if want := map[string]bool{"synced": true, "new synced": true, "renamed synced": true}; !maps.Equal(found, want) {
		t.Errorf("names %v, want %v", found, want)
	}
}

// TestTruncate checks that what was cut off does not come back.
func TestTruncate(t *testing.T) {
	d := NewDisk()
	f := newFile(d, "f")
	f.write([]byte("abcdef"), 0)
	f.sync()
	f.resize(2)
	f.resize(4)
	if got := string(f.live); got != "ab\x00\x00" {
		t.Errorf("live %q", got)
	}
	f.sync()
	if got := string(f.kept); got != "ab\x00\x00" {
		t.Errorf("synced %q", got)
	}
}

// TestSupply checks that the power fails for all disks at once, before the step that is one too
// many, and that calls wait until they are released.
func TestSupply(t *testing.T) {
	a, b := NewDisk(), NewDisk()
	cuts := 0
	s := NewSupply([]*Disk{a, b}, 2, func() { cuts++ })
	done := 0
	step := func(d *Disk) syscall.Errno {
		return d.do(true, func() syscall.Errno { done++; return 0 })
	}
	if step(a) != 0 || step(b) != 0 || cuts != 0 {
		t.Fatal("cut too early")
	}
	if errno := a.do(false, func() syscall.Errno { return 0 }); errno != 0 {
		t.Fatalf("a reading is no step: %v", errno)
	}
	ended := make(chan syscall.Errno)
	go func() { ended <- step(a) }()
	select {
	case errno := <-ended:
		t.Fatalf("a call on a cut disk has ended: %v", errno)
	default:
	}
	s.Release()
	if errno := <-ended; errno != syscall.EIO || cuts != 1 || done != 2 {
		t.Errorf("%v, %d cuts, %d steps", errno, cuts, done)
	}
	if errno := b.do(false, func() syscall.Errno { return 0 }); errno != syscall.EIO {
		t.Errorf("the other disk: %v", errno)
	}
	s.Cut()
	if cuts != 1 {
		t.Errorf("%d cuts", cuts)
	}
}
