//go:build unix

package journal

import (
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/quorate/quorate/internal/quota"
)

// FuzzOpen opens arbitrary file content. Open never panics, and the next process finds again whatever
// it accepts as whole.
func FuzzOpen(f *testing.F) {
	dir := f.TempDir()
	j, err := Open(config(dir, 1))
	if err != nil {
		f.Fatal(err)
	}
	j.Slot(key(1), 1).Set(quota.Counts{Total: 5, Saved: 4, Before: 3, Back: 2, Window: 1})
	j.Slot(key(2), 2).Set(quota.Counts{Total: 50})
	j.Close()
	good, err := os.ReadFile(filepath.Join(dir, FileName))
	if err != nil {
		f.Fatal(err)
	}
	good = good[:headerSize+3*slotSize]
	f.Add(good, 0, byte(0))
	f.Add(good[:headerSize+slotSize], 100, byte(1))
	f.Add(good, headerSize+24, byte(255))
	f.Add(good, int(unsafe.Offsetof(header{}.steps)), byte(firstSteps)) // no steps
	f.Add([]byte{}, 0, byte(0))
	f.Fuzz(func(t *testing.T, data []byte, at int, with byte) {
		if at >= 0 && at < len(data) {
			data[at] ^= with
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, FileName), data, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := Open(config(dir, 2))
		if j == nil {
			t.Fatal(err)
		}
		first := append([]quota.RecoveredCounts(nil), j.Inherited()...)
		j.Slot(key(3), 1).Set(quota.Counts{Total: 1})
		j.Close()
		if j, err = Open(config(dir, 3)); err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		if got := j.Inherited(); len(got) != len(first)+1 {
			t.Fatalf("%+v, then %+v", first, got)
		}
	})
}
