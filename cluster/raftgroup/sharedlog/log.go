package sharedlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"github.com/quorate/quorate/internal/boltcheck"
	"github.com/quorate/quorate/internal/syncdir"
)

var (
	// ErrDamaged means that the file cannot be used as it is. Retrying does not help.
	ErrDamaged = errors.New("damaged")
	// ErrFailed is the error of writes after one that failed, until Reopen.
	ErrFailed = errors.New("the log has failed")
	// ErrClosed is the error of writes after Close.
	ErrClosed = errors.New("the log is closed")
)

// Store is what a Log uses of raft-boltdb.
type Store interface {
	StoreLogs(entries []*raft.Log) error
	DeleteRange(from, to uint64) error
	GetLog(index uint64, out *raft.Log) error
	Close() error
}

// Options of a Log.
type Options struct {
	// Wrap replaces the store of the file, for tests. Nil keeps it.
	Wrap func(Store) Store
}

// Stats counts the work of a Log since Open.
type Stats struct {
	Commits  uint64 // transactions; each takes two syncs of the file
	Calls    uint64 // appends and saved values that they held
	Entries  uint64 // entries and values that they held
	Bytes    uint64 // of entries
	Pieces   uint64 // transactions that deleted
	Reopened uint64 // returns from a fault
}

// Log is the log of all groups of a node. It is safe for concurrent use.
type Log struct {
	path string
	opts Options

	mu        sync.Mutex
	wake      *sync.Cond
	groups    map[uint32]*Group
	ready     []*Group    // groups with calls that wait, in turns
	deletions []*deletion // that wait, in turns
	failed    error       // why writes are refused
	closing   bool
	stats     Stats
	txid      uint64 // number of the last transaction that was synced

	files sync.RWMutex // held while using store; exclusively while replacing it
	store Store
	ended chan struct{} // closed when the committer has ended
}

// Open opens the log in a file, or creates it. The error is ErrDamaged if the file is unusable.
func Open(path string, opts Options) (*Log, error) {
	l := &Log{path: path, opts: opts, groups: map[uint32]*Group{}, ended: make(chan struct{})}
	l.wake = sync.NewCond(&l.mu)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := create(path); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	content, err := contentOf(path)
	if err != nil {
		return nil, err
	}
	if err := l.open(); err != nil {
		return nil, err
	}
	if err := l.take(content); err != nil {
		return nil, errors.Join(err, l.store.Close())
	}
	go l.run()
	return l, nil
}

// create creates an empty file under a temporary name and moves it into place. An unusable file in
// its place is therefore always damage, never the trace of a crash at the first start.
func create(path string) error {
	if err := syncdir.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temp := path + ".new"
	if err := os.RemoveAll(temp); err != nil {
		return err
	}
	s, err := openBolt(temp)
	if err != nil {
		return err
	}
	// Close it before the rename: bbolt's errors name the file as it was opened.
	if err := s.Close(); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncdir.Sync(filepath.Dir(path))
}

// openBolt opens a file that has passed boltcheck. If bbolt panics on this goroutine over something
// that the check missed, openBolt returns an error.
func openBolt(path string) (s *raftboltdb.BoltStore, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, p)
		}
	}()
	s, err = raftboltdb.New(raftboltdb.Options{
		Path: path,
		// bbolt rebuilds the freelist at start instead of writing it on every commit.
		BoltOptions: &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, Timeout: 2 * time.Second},
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return s, nil
}

// open opens the file, and notes the number of its newest transaction. The caller holds files
// exclusively, or nobody else uses l.
func (l *Log) open() error {
	s, err := openBolt(l.path)
	if err != nil {
		return err
	}
	l.store = s
	if l.opts.Wrap != nil {
		l.store = l.opts.Wrap(s)
	}
	if l.txid, err = boltcheck.Transaction(l.path); err != nil {
		return errors.Join(err, l.store.Close())
	}
	return nil
}

// bounds are the first and last index of a group's entries, and which values it keeps beside them.
type bounds struct {
	first, last uint64
	values      [slots]bool
}

// contentOf checks a file and returns what it holds of each group.
func contentOf(path string) (map[uint32]*bounds, error) {
	content := map[uint32]*bounds{}
	err := boltcheck.Read(path, func(bucket, key []byte) error {
		if string(bucket) != "logs" {
			return fmt.Errorf("key %x in bucket %q", key, bucket)
		}
		if len(key) != 8 {
			return fmt.Errorf("key %x: %d bytes, not 8", key, len(key))
		}
		id, index, stable := splitKey(binary.BigEndian.Uint64(key))
		b := content[id]
		if b == nil {
			b = &bounds{}
			content[id] = b
		}
		switch {
		case stable && index >= uint64(slots):
			return fmt.Errorf("group %d: value %d", id, index)
		case stable:
			b.values[index] = true
		case index == 0: // the key of entry 1 with a flipped bit: bounds would not notice
			return fmt.Errorf("group %d: entry 0; the first is 1", id)
		case b.last != 0 && index != b.last+1:
			return fmt.Errorf("group %d: entry %d follows entry %d", id, index, b.last)
		case b.last == 0:
			b.first, b.last = index, index
		default:
			b.last = index
		}
		return nil
	})
	if err == nil {
		return content, nil
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, err // an I/O error, not damage
	}
	return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
}

// take reads all entries and values once, which checks them, and sets the groups accordingly.
func (l *Log) take(content map[uint32]*bounds) error {
	found := map[uint32]*Group{}
	for id, b := range content {
		g := &Group{log: l, id: id, first: b.first, last: b.last}
		for s, there := range b.values {
			if !there {
				continue
			}
			e, err := l.read(stableKey(id, slot(s)))
			if err != nil {
				return fmt.Errorf("%w: value %d of group %d: %w", ErrDamaged, s, id, err)
			}
			g.stable[s] = append(make([]byte, 0, len(e.Data)), e.Data...)
		}
		for index := b.first; index != 0 && index <= b.last; index++ {
			if _, err := l.read(uint64(id)<<indexBits | index); err != nil {
				return fmt.Errorf("%w: entry %d of group %d: %w", ErrDamaged, index, id, err)
			}
		}
		found[id] = g
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, g := range found {
		to := l.group(id)
		to.first, to.last, to.stable = g.first, g.last, g.stable
	}
	return nil
}

// read reads what is stored under a key. A panic of the decoder is an error.
func (l *Log) read(k uint64) (out *raft.Log, err error) {
	l.files.RLock()
	defer l.files.RUnlock()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	out = new(raft.Log)
	if err := l.store.GetLog(k, out); err != nil {
		return nil, err
	}
	return out, unseal(k, out)
}

// Group returns the log of a group, which need not hold anything.
func (l *Log) Group(id uint32) (*Group, error) {
	if id > MaxGroup {
		return nil, fmt.Errorf("group %d: at most %d", id, MaxGroup)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.group(id), nil
}

func (l *Log) group(id uint32) *Group {
	g := l.groups[id]
	if g == nil {
		g = &Group{log: l, id: id}
		l.groups[id] = g
	}
	return g
}

// Held returns the sorted numbers of the groups with anything in the log.
func (l *Log) Held() (ids []uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, g := range l.groups {
		if g.holds() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Dropped returns the sorted numbers of the groups that are marked as dropped and not erased yet.
func (l *Log) Dropped() (ids []uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, g := range l.groups {
		if g.stable[slotDropped] != nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Stats returns the work done so far.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// Close waits for the calls in progress and closes the file. Later writes return ErrClosed.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closing {
		l.mu.Unlock()
		return nil
	}
	l.closing = true
	l.wake.Broadcast()
	l.mu.Unlock()
	<-l.ended
	l.files.Lock()
	defer l.files.Unlock()
	return l.store.Close()
}

// Reopen takes the log into service again after a failed write, from the last transaction that was
// synced. It does nothing if the log has not failed.
func (l *Log) Reopen() error {
	l.files.Lock()
	defer l.files.Unlock()
	l.mu.Lock()
	failed, closing, good := l.failed, l.closing, l.txid
	l.mu.Unlock()
	switch {
	case closing:
		return ErrClosed
	case failed == nil:
		return nil
	}
	_ = l.store.Close() // closed already if an earlier Reopen failed
	if err := boltcheck.RollBack(l.path, good); err != nil {
		return fmt.Errorf("reopen %s: %w", l.path, err)
	}
	content, err := contentOf(l.path)
	if err != nil {
		return err
	}
	l.mu.Lock()
	err = l.compare(content)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	if err := l.open(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = nil
	l.stats.Reopened++
	return nil
}

// compare returns an error if the file does not hold what was acknowledged. The caller holds mu.
func (l *Log) compare(content map[uint32]*bounds) error {
	for id, g := range l.groups {
		b := content[id]
		if b == nil {
			b = &bounds{}
		}
		same := b.first == g.first && b.last == g.last
		for s := range slots {
			same = same && b.values[s] == (g.stable[s] != nil)
		}
		if !same {
			return fmt.Errorf("%w: group %d has entries %d to %d, and %d to %d were acknowledged", ErrDamaged, id, b.first, b.last, g.first, g.last)
		}
	}
	return nil
}

// Holds reports whether a file holds anything of a group, as [Group.Holds] does. It must not be
// open. A missing file holds nothing.
func Holds(path string, group uint32) (bool, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	content, err := contentOf(path)
	b := content[group]
	if err != nil || b == nil || b.values[slotDropped] {
		return false, err
	}
	return b.last != 0 || slices.Contains(b.values[:], true), nil
}
