package syncdir

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// TestMkdirAll checks that the parent of every new directory is synced, and no other.
func TestMkdirAll(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows syncs no directories")
	}
	base := t.TempDir()
	var synced []string
	defer Observe(func(dir string) { synced = append(synced, dir) })()
	for range 2 {
		if err := MkdirAll(filepath.Join(base, "a", "b")+"/", 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{base, filepath.Join(base, "a")}; !slices.Equal(synced, want) {
		t.Errorf("synced %v, want %v", synced, want)
	}
	if err := os.WriteFile(filepath.Join(base, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"file", "file/below"} {
		if err := MkdirAll(filepath.Join(base, path), 0o700); err == nil {
			t.Errorf("%s: no error, and there is a file in its place", path)
		}
	}
	if err := Sync(filepath.Join(base, "missing")); err == nil {
		t.Error("a missing directory was synced")
	}
}
