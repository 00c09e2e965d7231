package multiraft

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// fsm passes what raft commits to a StateMachine.
type fsm struct {
	machine StateMachine
	index   atomic.Uint64 // newest entry applied
	bytes   atomic.Int64  // applied since the last snapshot

	// skipTo is set when raft is restarted above a living state machine: it
	// replays entries that the machine holds already. seen is how far it got.
	skipTo, seen uint64
}

// errReplaying keeps raft from saving a state under the index of an entry that
// it replays: the state is newer.
var errReplaying = errors.New("still replaying the log after a restart")

// applied is what Apply returns to raft: the machine's result and the term of
// the entry, which raft does not tell the proposer.
type applied struct {
	term   uint64
	result any
}

// Apply implements raft.FSM.
func (f *fsm) Apply(l *raft.Log) any {
	f.seen = l.Index
	if l.Index <= f.skipTo {
		return applied{term: l.Term}
	}
	f.bytes.Add(int64(len(l.Data)))
	r := applied{l.Term, f.machine.Apply(l.Index, l.Term, l.Data)}
	f.index.Store(l.Index)
	return r
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
	return snapshot{write}, nil
}

// Restore implements raft.FSM.
func (f *fsm) Restore(r io.ReadCloser) error {
	f.skipTo = 0 // what follows is new to the restored state
	f.bytes.Store(0)
	return f.machine.Restore(r)
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
