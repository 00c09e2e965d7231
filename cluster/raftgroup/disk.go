package raftgroup

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// errFailed is what raft gets after the first failed write.
var errFailed = errors.New("an earlier write failed")

// stallAfter is how many election timeouts a write may take until a leader
// stops its heartbeats, so that others lead.
const stallAfter = 4

var currentTerm = []byte("CurrentTerm") // raft's key

// disk is what one raft instance writes to. Raft panics when it cannot save its
// term, and goes on with a wrong idea of its log when an append fails after it
// has cut the log's end. So the first write that fails ends the instance: its
// connections are cut first, then it gets an answer that keeps it from panicking, and
// nothing more is written or applied until it has been ended and, when the disk
// takes writes again, replaced (see fault.go). Nothing that it does meanwhile
// leaves the process.
type disk struct {
	logs    raft.LogStore
	stable  raft.StableStore
	trans   *raftTransport
	fsm     *fsm
	onFail  func(error)  // called once, on the goroutine that wrote
	latency *diskLatency // of the node's disk

	failed atomic.Bool
	torn   atomic.Uint64 // first index of an append that failed; 0 is none
	since  atomic.Int64  // when the write under way began, unix nanoseconds; 0 is none

	newest atomic.Pointer[raft.Log] // a copy of the last entry, if it is small; nil if that is not known
}

// maxNewest bounds the data of the entry that is kept in memory, in bytes.
const maxNewest = 4 << 10

var (
	_ raft.LogStore    = (*disk)(nil)
	_ raft.StableStore = (*disk)(nil)
)

// write runs one write.
func (d *disk) write(what string, f func() error) error {
	if d.failed.Load() {
		return errFailed
	}
	err := f()
	if err == nil {
		return nil
	}
	d.trans.cancel() // before anything that follows could be sent
	d.fsm.halted.Store(true)
	if !d.failed.Swap(true) {
		d.onFail(fmt.Errorf("%s: %w", what, err))
	}
	return err
}

// timed runs a write that raft's own goroutine waits for.
func (d *disk) timed(f func() error) error {
	d.since.Store(time.Now().UnixNano())
	defer d.since.Store(0)
	return f()
}

// stalled says for how long the write under way has lasted.
func (d *disk) stalled() time.Duration {
	if at := d.since.Load(); at != 0 {
		return time.Since(time.Unix(0, at))
	}
	return 0
}

// StoreLog implements raft.LogStore, as do the methods up to DeleteRange.
func (d *disk) StoreLog(l *raft.Log) error { return d.StoreLogs([]*raft.Log{l}) }

// StoreLogs appends.
func (d *disk) StoreLogs(l []*raft.Log) error {
	d.newest.Store(nil)
	err := d.write("append to the log", func() error {
		began := time.Now()
		err := d.timed(func() error { return d.logs.StoreLogs(l) })
		d.latency.note(time.Now(), time.Since(began))
		if err != nil && len(l) > 0 {
			d.torn.Store(l[0].Index)
		}
		return err
	})
	if err == nil && len(l) > 0 {
		d.keep(l[len(l)-1])
	}
	return err
}

// keep remembers the newest entry: a leader that has nothing to say names it in what it
// sends to each follower, again and again.
func (d *disk) keep(newest *raft.Log) {
	if len(newest.Data)+len(newest.Extensions) <= maxNewest {
		c := *newest
		d.newest.Store(&c)
	}
	d.trans.stored(newest.Index)
}

// DeleteRange deletes.
func (d *disk) DeleteRange(from, to uint64) error {
	d.newest.Store(nil)
	return d.write("delete from the log", func() error { return d.logs.DeleteRange(from, to) })
}

// FirstIndex reads.
func (d *disk) FirstIndex() (uint64, error) { return d.logs.FirstIndex() }

// LastIndex reads.
func (d *disk) LastIndex() (uint64, error) { return d.logs.LastIndex() }

// GetLog reads. Raft panics if a committed entry is missing, as it may be after
// a failed write; the entry of no effect that it gets instead goes nowhere.
func (d *disk) GetLog(index uint64, l *raft.Log) error {
	if last := d.newest.Load(); last != nil && last.Index == index {
		*l = *last
		return nil
	}
	err := d.logs.GetLog(index, l)
	if err != nil && d.failed.Load() {
		*l = raft.Log{Index: index, Type: raft.LogNoop}
		return nil
	}
	return err
}

// Set implements raft.StableStore, as do the methods below.
func (d *disk) Set(k, v []byte) error {
	return d.saved(k, d.write("save a vote", func() error {
		return d.timed(func() error { return d.stable.Set(k, v) })
	}))
}

// SetUint64 saves.
func (d *disk) SetUint64(k []byte, v uint64) error {
	return d.saved(k, d.write("save the term", func() error {
		return d.timed(func() error { return d.stable.SetUint64(k, v) })
	}))
}

// saved keeps raft from panicking over its term. It cannot win with it: its own
// vote is refused after that, and it is not heard.
func (d *disk) saved(k []byte, err error) error {
	if bytes.Equal(k, currentTerm) {
		return nil
	}
	return err
}

// Get reads.
func (d *disk) Get(k []byte) ([]byte, error) { return d.stable.Get(k) }

// GetUint64 reads.
func (d *disk) GetUint64(k []byte) (uint64, error) { return d.stable.GetUint64(k) }
