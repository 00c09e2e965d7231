package sharedlog

import (
	"encoding/binary"
	"fmt"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// Group is the log of one group, and what the group must keep beside it. It implements
// raft.LogStore and raft.StableStore. A write returns when it is synced.
type Group struct {
	log *Log
	id  uint32

	// Guarded by log.mu. They hold what is synced, without the entries that are being deleted.
	first, last uint64 // bounds of the entries; both 0 without entries
	stable      [slots][]byte

	// Guarded by log.mu: calls that wait for the committer.
	writes []*write
}

var (
	_ raft.LogStore    = (*Group)(nil)
	_ raft.StableStore = (*Group)(nil)
)

// write is one call that waits for a transaction.
type write struct {
	group   *Group
	entries []*raft.Log // sealed
	bytes   int
	from    uint64 // index of the first entry of the log among entries; 0 if none is
	to      uint64
	values  [slots][]byte // values among entries
	done    chan error    // gets one result
}

// add adds an entry of the log.
func (w *write) add(l *raft.Log) error {
	k, err := entryKey(w.group.id, l.Index)
	if err != nil {
		return err
	}
	if w.from == 0 {
		w.from, w.to = l.Index, l.Index-1
	}
	if l.Index != w.to+1 {
		return fmt.Errorf("append of entry %d after entry %d in one call: there is a gap", l.Index, w.to)
	}
	w.to = l.Index
	w.put(seal(k, l))
	return nil
}

// set adds a value beside the log.
func (w *write) set(s slot, value []byte) {
	k := stableKey(w.group.id, s)
	w.values[s] = append(make([]byte, 0, len(value)), value...)
	w.put(seal(k, &raft.Log{Data: w.values[s]}))
}

// overhead is about what an entry takes beside its data, in bytes.
const overhead = 128

func (w *write) put(l *raft.Log) {
	w.entries = append(w.entries, l)
	w.bytes += len(l.Data) + len(l.Extensions) + overhead
}

// apply makes a synced write visible. The caller holds log.mu.
func (w *write) apply() {
	g := w.group
	if w.from != 0 {
		if g.last == 0 {
			g.first = w.from
		}
		g.first, g.last = min(g.first, w.from), max(g.last, w.to)
	}
	for s, v := range w.values {
		if v != nil {
			g.stable[s] = v
		}
	}
}

// gap reports that the write would leave a gap between its entries and those of the log. Raft
// appends such entries after it has taken over a snapshot, which covers all that the log holds. The
// caller holds log.mu.
func (w *write) gap() bool {
	g := w.group
	return w.from != 0 && g.last != 0 && (w.from > g.last+1 || w.to+1 < g.first)
}

func (g *Group) newWrite() *write { return &write{group: g, done: make(chan error, 1)} }

// FirstIndex returns the index of the first entry, or 0.
func (g *Group) FirstIndex() (uint64, error) {
	g.log.mu.Lock()
	defer g.log.mu.Unlock()
	return g.first, nil
}

// LastIndex returns the index of the last entry, or 0.
func (g *Group) LastIndex() (uint64, error) {
	g.log.mu.Lock()
	defer g.log.mu.Unlock()
	return g.last, nil
}

// GetLog reads an entry.
func (g *Group) GetLog(index uint64, out *raft.Log) error {
	if !g.has(index) {
		return raft.ErrLogNotFound
	}
	k, err := entryKey(g.id, index)
	if err != nil {
		return err
	}
	l, err := g.log.read(k)
	switch {
	case err == nil:
		*out = *l
		return nil
	case !g.has(index): // deleted in the meantime
		return raft.ErrLogNotFound
	}
	// Never ErrLogNotFound: raft would continue without the entry.
	return fmt.Errorf("entry %d of group %d cannot be read: %v", index, g.id, err) //nolint:errorlint // see above
}

func (g *Group) has(index uint64) bool {
	g.log.mu.Lock()
	defer g.log.mu.Unlock()
	return index != 0 && g.first <= index && index <= g.last
}

// StoreLog appends an entry.
func (g *Group) StoreLog(l *raft.Log) error { return g.StoreLogs([]*raft.Log{l}) }

// StoreLogs appends entries with consecutive indexes. If they do not follow on the entries of the
// log, those are deleted first.
func (g *Group) StoreLogs(entries []*raft.Log) error {
	w := g.newWrite()
	for _, l := range entries {
		if err := w.add(l); err != nil {
			return err
		}
	}
	return g.log.submit(w)
}

// DeleteRange deletes the entries from through to, which must be the beginning of the log, its end
// or all of it. It deletes in pieces: a crash may leave a part of them, and never a gap.
func (g *Group) DeleteRange(from, to uint64) error {
	return g.log.submitDeletion(&deletion{group: g, from: from, to: to, done: make(chan error, 1)})
}

// Set saves a value that raft keeps beside the log.
func (g *Group) Set(key, value []byte) error {
	s, err := slotOf(key)
	if err != nil {
		return err
	}
	return g.setSlot(s, value)
}

func (g *Group) setSlot(s slot, value []byte) error {
	w := g.newWrite()
	w.set(s, value)
	return g.log.submit(w)
}

// Get returns a saved value, or the error that raft expects for an unknown key.
func (g *Group) Get(key []byte) ([]byte, error) {
	s, err := slotOf(key)
	if err != nil {
		return nil, err
	}
	v := g.getSlot(s)
	if v == nil {
		return nil, raftboltdb.ErrKeyNotFound
	}
	return append([]byte(nil), v...), nil
}

func (g *Group) getSlot(s slot) []byte {
	g.log.mu.Lock()
	defer g.log.mu.Unlock()
	return g.stable[s]
}

// SetUint64 saves a number.
func (g *Group) SetUint64(key []byte, value uint64) error {
	return g.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 returns a saved number.
func (g *Group) GetUint64(key []byte) (uint64, error) {
	v, err := g.Get(key)
	if err != nil {
		return 0, err
	}
	if len(v) != 8 {
		return 0, fmt.Errorf("value %q: %d bytes; a number has 8", key, len(v))
	}
	return binary.BigEndian.Uint64(v), nil
}

// Term returns the saved term, or 0.
func (g *Group) Term() uint64 {
	if v := g.getSlot(slotTerm); len(v) == 8 {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

// Found saves a term and, unless it is nil, the first entry of the log, in one transaction, so a
// crash leaves both or neither.
func (g *Group) Found(term uint64, entry *raft.Log) error {
	w := g.newWrite()
	w.set(slotTerm, binary.BigEndian.AppendUint64(nil, term))
	if entry != nil {
		if err := w.add(entry); err != nil {
			return err
		}
	}
	return g.log.submit(w)
}

// Holds reports whether the log holds anything of the group: a term, a vote or entries. A group
// that is being deleted counts as gone.
func (g *Group) Holds() bool {
	g.log.mu.Lock()
	defer g.log.mu.Unlock()
	return g.holds()
}

func (g *Group) holds() bool {
	if g.stable[slotDropped] != nil {
		return false
	}
	for _, v := range g.stable {
		if v != nil {
			return true
		}
	}
	return g.last != 0
}

// MarkDropped durably marks the group as one whose files are being deleted, for [Log.Dropped].
func (g *Group) MarkDropped() error { return g.setSlot(slotDropped, []byte{1}) }

// Erase deletes all entries, the values and, last, the mark of MarkDropped.
func (g *Group) Erase() error {
	if err := g.DeleteRange(1, MaxIndex); err != nil {
		return err
	}
	return g.log.submitDeletion(&deletion{group: g, values: true, done: make(chan error, 1)})
}
