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

// TestWriteFile checks that a file replaces another as a whole, is private to its owner whatever a killed
// process has left, and that its name is synced.
func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path+".tmp", []byte("half of a fi"), 0o644); err != nil {
		t.Fatal(err)
	}
	var synced []string
	defer Observe(func(dir string) { synced = append(synced, dir) })()
	for _, want := range []string{"first", "second"} {
		if err := WriteFile(path, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if dir := filepath.Dir(path); runtime.GOOS != "windows" && !slices.Equal(synced, []string{dir, dir}) {
		t.Errorf("synced %v", synced)
	}
	if left, _ := filepath.Glob(path + "*"); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}
