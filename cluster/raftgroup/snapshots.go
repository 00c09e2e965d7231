package raftgroup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/internal/backoff"
)

// tempSuffix is the suffix that raft gives to snapshots being written.
const tempSuffix = ".tmp"

// snapshots wraps raft's store of a group's snapshots on disk. It adds the removal of incomplete
// snapshots, which raft leaves behind, and the record of unreadable ones, which raft skips.
type snapshots struct {
	raft.SnapshotStore
	dir   string // holds a directory per snapshot
	group *Group

	mu      sync.Mutex
	writing map[string]bool  // by id
	bad     map[string]error // by id: why a snapshot is unreadable
}

func newSnapshots(s raft.SnapshotStore, dir string, g *Group) (*snapshots, error) {
	out := &snapshots{SnapshotStore: s, dir: filepath.Join(dir, "snapshots"), group: g, writing: map[string]bool{}, bad: map[string]error{}}
	out.sweep()
	ids, err := out.ids()
	if list, err := s.List(); err == nil && len(list) > 0 {
		g.saved.Store(list[0].Size)
	}
	for _, id := range ids {
		if err := out.readable(id); err != nil {
			out.bad[id] = err
		}
	}
	return out, err
}

// ids returns the ids of the snapshots on disk, readable or not.
func (s *snapshots) ids() (ids []string, err error) {
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries {
		if e.IsDir() && !strings.HasSuffix(e.Name(), tempSuffix) {
			ids = append(ids, e.Name())
		}
	}
	return ids, err
}

// readable checks a snapshot as far as that is cheap. Raft verifies the checksum of the snapshot
// that it restores.
func (s *snapshots) readable(id string) error {
	var meta raft.SnapshotMeta
	b, err := os.ReadFile(filepath.Join(s.dir, id, "meta.json"))
	if err == nil {
		err = json.Unmarshal(b, &meta)
	}
	if err != nil {
		return fmt.Errorf("meta.json: %w", err)
	}
	info, err := os.Stat(filepath.Join(s.dir, id, "state.bin"))
	if err != nil {
		return err
	}
	if info.Size() != meta.Size {
		return fmt.Errorf("state.bin: %d bytes, not %d", info.Size(), meta.Size)
	}
	return nil
}

// sweep deletes incomplete snapshots that are no longer being written.
func (s *snapshots) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), tempSuffix); ok && !s.writing[id] {
			_ = os.RemoveAll(filepath.Join(s.dir, e.Name()))
		}
	}
}

// Create implements raft.SnapshotStore.
func (s *snapshots) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, ci uint64, t raft.Transport) (raft.SnapshotSink, error) {
	k, err := s.SnapshotStore.Create(v, index, term, c, ci, t)
	if err != nil {
		s.sweep()
		s.note(err)
		return nil, err
	}
	s.mu.Lock()
	s.writing[k.ID()] = true
	s.mu.Unlock()
	return &sink{SnapshotSink: k, store: s}, nil
}

// note records the outcome of writing a snapshot for Health.
func (s *snapshots) note(err error) {
	if err == nil {
		s.group.unsaved.Store(nil)
		return
	}
	s.group.unsaved.CompareAndSwap(nil, &fault{fmt.Errorf("snapshot: %w", err), time.Now()})
}

// sink is one snapshot being written.
type sink struct {
	raft.SnapshotSink
	store *snapshots
	bytes int64
}

func (k *sink) Write(b []byte) (int, error) {
	n, err := k.SnapshotSink.Write(b)
	k.bytes += int64(n)
	if err != nil {
		k.store.note(err)
	}
	return n, err
}

// Close implements raft.SnapshotSink.
func (k *sink) Close() error {
	err := k.SnapshotSink.Close()
	k.store.note(err)
	if err == nil {
		k.store.group.saved.Store(k.bytes)
	}
	return k.end(err)
}

// Cancel implements raft.SnapshotSink.
func (k *sink) Cancel() error { return k.end(k.SnapshotSink.Cancel()) }

// end removes what raft leaves behind of a failed snapshot.
func (k *sink) end(err error) error {
	k.store.mu.Lock()
	delete(k.store.writing, k.ID())
	k.store.mu.Unlock()
	if err != nil {
		_ = os.RemoveAll(filepath.Join(k.store.dir, k.ID()+tempSuffix))
	}
	return err
}

// opened is a snapshot open for reading.
type opened struct {
	io.ReadCloser
	index uint64
}

// Open implements raft.SnapshotStore. It verifies the checksum.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, r, err := s.SnapshotStore.Open(id)
	if err != nil {
		s.mu.Lock()
		if s.bad[id] == nil { // otherwise a more precise reason is known
			s.bad[id] = err
		}
		s.mu.Unlock()
		return nil, nil, err
	}
	s.group.fsm.learn(meta.ConfigurationIndex, meta.Configuration)
	return meta, &opened{r, meta.Index}, nil
}

// snapshotIndex returns the index in a snapshot id, which has the form term-index-time.
func snapshotIndex(id string) uint64 {
	parts := strings.Split(id, "-")
	if len(parts) < 2 {
		return 0
	}
	n, _ := strconv.ParseUint(parts[1], 10, 64)
	return n
}

// checkRestored checks, after raft has started from the snapshot at index restored, that no
// acknowledged entry was lost. If raft cannot read the newest snapshot, it falls back to an older
// one and continues even if the log does not reach the newest one's index, which would lose
// acknowledged entries. checkRestored returns an error in that case. If the log reaches that far,
// checkRestored deletes the unreadable snapshot, which is no longer needed.
func (s *snapshots) checkRestored(restored, lastIndex uint64) error {
	ids, err := s.ids()
	if err != nil {
		return err
	}
	for _, id := range ids {
		index, path := snapshotIndex(id), filepath.Join(s.dir, id)
		s.mu.Lock()
		why := s.bad[id]
		s.mu.Unlock()
		switch {
		case index <= restored && why == nil:
			continue
		case why == nil:
			why = errors.New("it could not be restored")
		}
		if index > max(lastIndex, restored) {
			return damaged(path, fmt.Errorf("%w; the log ends at entry %d, before the snapshot's %d", why, lastIndex, index))
		}
		s.group.log.Warn("an unreadable snapshot was deleted; the other one and the log contain its content", "path", path, "err", why)
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// blame adds an unreadable snapshot, if there is one, to the error of a failed start.
func (s *snapshots) blame(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, why := range s.bad {
		return damaged(filepath.Join(s.dir, id), fmt.Errorf("%w, and the rest is not enough: %w", why, err))
	}
	return err
}

// snapshotRetry is the pause before retrying a snapshot that raft could not take at that moment,
// and snapshotTries the maximum number of attempts.
const (
	snapshotRetry = 10 * time.Millisecond
	snapshotTries = 200
)

// Snapshot saves the state machine now and drops most of the log before it. It does nothing if
// nothing has been applied.
func (g *Group) Snapshot(ctx context.Context) error {
	for try := 1; ; try++ {
		i := g.cur.Load()
		if i == nil {
			return g.whyUnavailable()
		}
		err := i.wait(ctx, i.raft.Snapshot())
		if errors.Is(err, raft.ErrNothingNewToSnapshot) {
			return nil
		}
		if err == nil || !later(err) || try == snapshotTries {
			return err
		}
		if backoff.Sleep(ctx, snapshotRetry) != nil {
			return err
		}
	}
}

// later reports whether raft can take the snapshot in a moment: once it has applied a committed
// configuration, or once a leadership transfer is over.
func later(err error) bool {
	return errors.Is(err, raft.ErrLeadershipTransferInProgress) || strings.HasPrefix(err.Error(), "cannot take snapshot now")
}

// any reports whether there are snapshots, readable or not. It returns true if it cannot tell.
func (s *snapshots) any() bool {
	ids, err := s.ids()
	return err != nil || len(ids) > 0
}
