package raftgroup

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/internal/syncdir"
)

// privateSnapshotStore keeps snapshots in files that only their owner can read, even if somebody
// moves them out of their directory; the library makes them world-readable. It also syncs the names
// of the files in a snapshot's directory, and of the directories above, which the library does not:
// raft deletes the entries that a snapshot covers as soon as the snapshot is closed.
type privateSnapshotStore struct {
	*raft.FileSnapshotStore
	dir string
}

func newPrivateSnapshots(dir string, log hclog.Logger) (*privateSnapshotStore, error) {
	if err := syncdir.MkdirAll(filepath.Join(dir, "snapshots"), 0o700); err != nil {
		return nil, err
	}
	store, err := raft.NewFileSnapshotStoreWithLogger(dir, keepSnapshots, log)
	if err != nil {
		return nil, err
	}
	s := &privateSnapshotStore{store, filepath.Join(dir, "snapshots")}
	return s, errors.Join(os.Chmod(s.dir, 0o700), s.restrict("*")) // includes snapshots of earlier versions
}

// restrict makes the files of the matching snapshots accessible to their owner only.
func (s *privateSnapshotStore) restrict(id string) error {
	var errs []error
	for mode, pattern := range map[os.FileMode]string{0o700: id, 0o600: filepath.Join(id, "*")} {
		found, err := filepath.Glob(filepath.Join(s.dir, pattern))
		errs = append(errs, err)
		for _, path := range found {
			errs = append(errs, os.Chmod(path, mode))
		}
	}
	return errors.Join(errs...)
}

// Create implements raft.SnapshotStore.
func (s *privateSnapshotStore) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, at uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.FileSnapshotStore.Create(version, index, term, c, at, trans)
	if err != nil {
		return nil, err
	}
	if err := s.restrict(sink.ID() + tempSuffix); err != nil { // rewritten files keep their mode
		return nil, errors.Join(err, sink.Cancel())
	}
	if err := syncdir.Sync(filepath.Join(s.dir, sink.ID()+tempSuffix)); err != nil { // both files are there
		return nil, errors.Join(err, sink.Cancel())
	}
	return sink, nil
}
