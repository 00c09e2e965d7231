package raftgroup

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// errFailed is returned to raft for every write after the first one that failed.
var errFailed = errors.New("an earlier write failed")

// stallAfter is how many election timeouts a write may take before a leader stops its heartbeats
// so that another replica takes over.
const stallAfter = 4

var currentTerm = []byte("CurrentTerm") // raft's key

// disk is the storage of one raft instance. Raft panics when it cannot save its term, and
// continues with a wrong view of its log when an append fails after it truncated the log's end.
// Therefore the first failed write ends the instance. write first cuts the instance's
// connections, then returns a result that keeps raft from panicking. Nothing more is written or
// applied until the instance has stopped and, once the disk accepts writes again, been replaced
// (see fault.go). Nothing that the failed instance does in the meantime leaves the process.
type disk struct {
	logs    raft.LogStore
	stable  raft.StableStore
	trans   *raftTransport
	fsm     *fsm
	onFail  func(error)  // called once, on the writing goroutine
	latency *diskLatency // shared by all groups of the node

	failed atomic.Bool
	torn   atomic.Uint64 // first index of a failed append; 0 if none failed
	since  atomic.Int64  // start of the current write in Unix nanoseconds; 0 if none is running

	recent recentEntries
}

var (
	_ raft.LogStore    = (*disk)(nil)
	_ raft.StableStore = (*disk)(nil)
)

// write runs f. On the first failure it cuts the instance's connections, halts the state machine
// and calls onFail; after that it fails without running f.
func (d *disk) write(what string, f func() error) error {
	if d.failed.Load() {
		return errFailed
	}
	err := f()
	if err == nil {
		return nil
	}
	d.trans.cancel() // before raft can send anything based on this write
	d.fsm.halted.Store(true)
	if !d.failed.Swap(true) {
		d.onFail(fmt.Errorf("%s: %w", what, err))
	}
	return err
}

// timed runs a write on which raft's own goroutine blocks, and records its start for stalled.
func (d *disk) timed(f func() error) error {
	d.since.Store(time.Now().UnixNano())
	defer d.since.Store(0)
	return f()
}

// stalled returns how long the current write has been running, or 0.
func (d *disk) stalled() time.Duration {
	if at := d.since.Load(); at != 0 {
		return time.Since(time.Unix(0, at))
	}
	return 0
}

// StoreLog implements raft.LogStore, as do the methods up to DeleteRange.
func (d *disk) StoreLog(l *raft.Log) error { return d.StoreLogs([]*raft.Log{l}) }

// StoreLogs appends entries.
func (d *disk) StoreLogs(l []*raft.Log) error {
	d.recent.before(l)
	err := d.write("append to the log", func() error {
		began := time.Now()
		err := d.timed(func() error { return d.logs.StoreLogs(l) })
		d.latency.note(time.Now(), time.Since(began))
		if err != nil && len(l) > 0 {
			d.torn.Store(l[0].Index)
		}
		return err
	})
	switch {
	case err != nil:
		d.recent.forget()
	case len(l) > 0:
		d.recent.add(l)
		d.trans.stored(l[len(l)-1].Index)
	}
	return err
}

// DeleteRange deletes entries from through to.
func (d *disk) DeleteRange(from, to uint64) error {
	d.recent.forget()
	return d.write("delete from the log", func() error { return d.logs.DeleteRange(from, to) })
}

// FirstIndex returns the index of the first entry.
func (d *disk) FirstIndex() (uint64, error) { return d.logs.FirstIndex() }

// LastIndex returns the index of the last entry.
func (d *disk) LastIndex() (uint64, error) { return d.logs.LastIndex() }

// GetLog reads an entry. Raft panics if it cannot read a committed entry, which can happen after a
// failed write, or on a damaged file. An entry that cannot be read therefore ends the instance, and
// GetLog returns a no-op entry, which never leaves it.
func (d *disk) GetLog(index uint64, l *raft.Log) error {
	if d.recent.get(index, l) {
		return nil
	}
	err := d.logs.GetLog(index, l)
	if err == nil || errors.Is(err, raft.ErrLogNotFound) && !d.failed.Load() {
		return err
	}
	_ = d.write("read the log", func() error { return err })
	*l = raft.Log{Index: index, Type: raft.LogNoop}
	return nil
}

// Set implements raft.StableStore, as do the methods below.
func (d *disk) Set(k, v []byte) error {
	return d.saved(k, d.write("save a vote", func() error {
		return d.timed(func() error { return d.stable.Set(k, v) })
	}))
}

// SetUint64 saves a term.
func (d *disk) SetUint64(k []byte, v uint64) error {
	return d.saved(k, d.write("save the term", func() error {
		return d.timed(func() error { return d.stable.SetUint64(k, v) })
	}))
}

// saved hides an error of saving the term, because raft would panic on it. Hiding it cannot win
// an election: saving the candidate's own vote fails next, and its connections are cut.
func (d *disk) saved(k []byte, err error) error {
	if bytes.Equal(k, currentTerm) {
		return nil
	}
	return err
}

// Get reads a value.
func (d *disk) Get(k []byte) ([]byte, error) { return d.stable.Get(k) }

// GetUint64 reads a number.
func (d *disk) GetUint64(k []byte) (uint64, error) { return d.stable.GetUint64(k) }
