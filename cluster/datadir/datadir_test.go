package datadir

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/quorate/quorate/internal/syncdir"
)

// TestNamesAreSynced checks that a power cut takes neither a new data directory nor a new file of
// it.
func TestNamesAreSynced(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows syncs no directories")
	}
	base := t.TempDir()
	synced := map[string][]string{}
	defer syncdir.Observe(func(dir string) {
		entries, _ := os.ReadDir(dir)
		synced[dir] = nil
		for _, e := range entries {
			synced[dir] = append(synced[dir], e.Name())
		}
	})()
	dir := filepath.Join(base, "data")
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := (Identity{Node: "n1"}).Write(dir); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(synced[base], "data") || !slices.Contains(synced[dir], identityFile) {
		t.Errorf("synced: %v", synced)
	}
}
