package raftgroup

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/hashicorp/raft"
)

// TestSnapshotsArePrivate checks that only the owner can read new and existing snapshots, while
// they are being written and afterwards.
func TestSnapshotsArePrivate(t *testing.T) {
	dir := t.TempDir()
	before := filepath.Join(dir, "snapshots", "1-1-1")
	if err := os.MkdirAll(before, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(before, "state.bin"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := newPrivateSnapshots(dir, newLogger(slog.New(slog.DiscardHandler), nil))
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		files := 0
		err := filepath.WalkDir(filepath.Join(dir, "snapshots"), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %s has mode %v", when, path, info.Mode())
			}
			files++
			return err
		})
		if err != nil || files < 3 {
			t.Errorf("%s: %d files, %v", when, files, err)
		}
	}
	check("those of before")
	_, trans := raft.NewInmemTransport("")
	sink, err := s.Create(raft.SnapshotVersionMax, 7, 2, raft.Configuration{}, 1, trans)
	if err != nil {
		t.Fatal(err)
	}
	check("being written")
	if _, err := sink.Write([]byte("state")); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	check("written")
	if list, err := s.List(); err != nil || len(list) == 0 {
		t.Errorf("%v %v", list, err)
	}
}
