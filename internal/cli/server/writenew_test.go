package server

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestWriteNew checks that a file appears whole and private to its owner, whatever a killed process
// has left, and never replaces another file.
func TestWriteNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), SettingsFile)
	if err := os.WriteFile(path+".tmp", []byte("node: n1, and then it was killed, long before the end"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeNew(path, []byte("node: n1\n")); err != nil {
		t.Fatal(err)
	}
	if err := writeNew(path, []byte("node: n2\n")); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("a second one: %v", err)
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != "node: n1\n" {
		t.Fatalf("%q, %v", got, err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(path + "*"); len(left) != 1 {
		t.Fatalf("left: %v", left)
	}
}
