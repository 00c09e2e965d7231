package raftgroup

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// fsm passes the entries that raft commits to a StateMachine.
type fsm struct {
	machine StateMachine
	index   atomic.Uint64 // index of the newest entry applied or restored
	bytes   atomic.Int64  // bytes applied since the last snapshot
	entries atomic.Int64  // entries applied since the last snapshot

	restored atomic.Uint64 // index of the last snapshot restored; 0 if none

	// conf is the newest committed configuration known to this replica; nil before the first.
	conf atomic.Pointer[committed]

	// halted is set when the instance above has failed. fsm then ignores what that instance
	// applies; the next instance finds those entries in the log.
	halted atomic.Bool

	// skipTo is set when raft restarts above a live state machine: raft then replays entries that
	// the machine already holds. seen is the index of the last entry replayed or applied.
	skipTo, seen uint64
}

// errReplaying prevents raft from saving a snapshot under the index of a replayed entry: the
// state is newer than that entry.
var errReplaying = errors.New("still replaying the log after a restart")

// applied is the value that Apply returns to raft: the machine's result and the entry's term,
// which raft does not report to the proposer.
type applied struct {
	term   uint64
	result any
}

// Apply implements raft.FSM.
func (f *fsm) Apply(l *raft.Log) any {
	if f.halted.Load() {
		return nil
	}
	f.seen = l.Index
	if l.Index <= f.skipTo {
		return applied{term: l.Term}
	}
	f.bytes.Add(int64(len(l.Data)))
	f.entries.Add(1)
	r := applied{l.Term, f.machine.Apply(l.Index, l.Term, l.Data)}
	f.index.Store(l.Index)
	return r
}

// committed is a committed configuration and the index of its entry.
type committed struct {
	index   uint64
	servers []raft.Server
}

var _ raft.ConfigurationStore = (*fsm)(nil)

// StoreConfiguration implements raft.ConfigurationStore: raft calls it with every committed
// configuration. This is the only place where raft reveals the index that a membership change
// must name.
func (f *fsm) StoreConfiguration(index uint64, c raft.Configuration) {
	if f.halted.Load() {
		return
	}
	f.seen = index
	if index > f.index.Load() {
		f.index.Store(index)
	}
	f.learn(index, c)
}

// learn stores a committed configuration unless a newer one is known.
func (f *fsm) learn(index uint64, c raft.Configuration) {
	for {
		old := f.conf.Load()
		if old != nil && old.index >= index {
			return
		}
		if f.conf.CompareAndSwap(old, &committed{index, c.Servers}) {
			return
		}
	}
}

// Snapshot implements raft.FSM.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if f.seen < f.skipTo {
		return nil, errReplaying
	}
	write, err := f.machine.Snapshot()
	if err != nil {
		return nil, err
	}
	f.bytes.Store(0)
	f.entries.Store(0)
	return snapshot{write}, nil
}

// Restore implements raft.FSM.
func (f *fsm) Restore(r io.ReadCloser) error {
	f.skipTo = 0 // later entries are new to the restored state
	f.bytes.Store(0)
	f.entries.Store(0)
	if err := f.machine.Restore(r); err != nil {
		return err
	}
	if w, ok := r.(raft.ReadCloserWrapper); ok {
		if o, ok := w.WrappedReadCloser().(*opened); ok {
			f.index.Store(o.index)
			f.restored.Store(o.index)
		}
	}
	return nil
}

// snapshot writes one snapshot.
type snapshot struct{ write func(io.Writer) error }

// Persist implements raft.FSMSnapshot.
func (s snapshot) Persist(sink raft.SnapshotSink) error {
	if err := s.write(sink); err != nil {
		_ = sink.Cancel()
		return err
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot.
func (s snapshot) Release() {}
