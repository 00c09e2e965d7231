//go:build unix

package journal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/quorate/quorate/internal/quota"
)

// TestKnown: the counts of earlier processes are known across any number of killed or closed
// processes, until one of them misses something.
func TestKnown(t *testing.T) {
	bootAnew := func(t *testing.T, dir string) { // as after a power loss
		t.Helper()
		f, err := os.OpenFile(filepath.Join(dir, FileName), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte("anotherb"), int64(unsafe.Offsetof(header{}.boot))); err != nil {
			t.Fatal(err)
		}
	}
	kill := func(t *testing.T, j *Journal) {
		t.Helper()
		if bootID() == 0 {
			t.Skip("nothing tells starts of the machine apart here")
		}
		j.closed.Store(true) // a killed process does nothing else
	}
	for name, c := range map[string]struct {
		between func(t *testing.T, dir string, j *Journal)
		prior   quota.Incarnation // that the second process is given
		want    bool
	}{
		"closed":              {func(_ *testing.T, _ string, j *Journal) { j.Close() }, 1, true},
		"killed":              {func(t *testing.T, _ string, j *Journal) { kill(t, j) }, 1, true},
		"closed, then power":  {func(t *testing.T, dir string, j *Journal) { j.Close(); bootAnew(t, dir) }, 1, true},
		"killed by power":     {func(t *testing.T, dir string, j *Journal) { kill(t, j); bootAnew(t, dir) }, 1, false},
		"another was between": {func(_ *testing.T, _ string, j *Journal) { j.Close() }, 2, false},
		"the file is gone":    {func(_ *testing.T, dir string, j *Journal) { j.Close(); os.Remove(filepath.Join(dir, FileName)) }, 1, false},
		"a key had no slot": {func(_ *testing.T, _ string, j *Journal) {
			j.Slot(quota.Key{Key: strings.Repeat("k", 400)}, 1)
			j.Close()
		}, 1, false},
		"the file was damaged": {func(_ *testing.T, dir string, j *Journal) { j.Close(); os.Truncate(filepath.Join(dir, FileName), 5000) }, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			first := open(t, config(dir, 1))
			if got := first.Known(); got != Forever {
				t.Errorf("a new node knows %v; want all", got)
			}
			c.between(t, dir, first)
			for inc := quota.Incarnation(3); inc < 5; inc++ {
				cfg := config(dir, inc)
				if cfg.Prior = c.prior; inc == 4 {
					cfg.Prior = 3
				}
				j, _ := Open(cfg) // the error reports a damaged file
				if got := j.Known(); (got == Forever) != c.want || !c.want && got > time.Minute {
					t.Errorf("process %d knows %v; want all: %v", inc, got, c.want)
				}
				j.Close()
			}
		})
	}
}
