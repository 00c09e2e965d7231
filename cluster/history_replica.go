package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
)

// historyReplica is a range's part of the history, as its log has made it; and, while
// this node leads the range, what it gathers. Safe for concurrent use.
type historyReplica struct {
	mu   sync.Mutex
	kept *history.Kept
	keys *history.KeptKeys
	// changed are the minutes whose lines have changed since they were last stored, at most
	// those that kept has.
	changed map[history.Minute]bool
	// changedKeys are those whose lists of keys have.
	changedKeys map[history.Minute]bool

	collector *history.Collector // nil unless this node leads
	term      quota.Term
	held      history.Second // since when lines without any counts wait for others; 0 is none
	writing   bool
	lists     [][]byte       // of keys, to be written: mostly one, and one of a leader that hands over
	listing   int            // how many of them are on their way into the log
	listed    history.Minute // the last one that was listed in this term
	since     quota.Time     // when the last list was made, or the term began
}

func newHistoryReplica() *historyReplica {
	return &historyReplica{kept: history.NewKept(), keys: history.NewKeptKeys(), changed: map[history.Minute]bool{}, changedKeys: map[history.Minute]bool{}}
}

// historyField is that of HistoryLines in quorate.raftlog.v1.RangeCommand.
const historyField = 4

// historyLines returns the encoded HistoryLines in an entry of a range's log; false if the
// entry is about something else.
func historyLines(entry []byte) ([]byte, bool) {
	field, kind, n := protowire.ConsumeTag(entry)
	if n < 0 || field != historyField || kind != protowire.BytesType {
		return nil, false
	}
	lines, m := protowire.ConsumeBytes(entry[n:])
	return lines, m == len(entry)-n
}

// apply adds lines of the log. One that this version cannot read changes nothing, and the
// others count.
func (r *historyReplica) apply(data []byte) error {
	var msg raftlogv1.HistoryLines
	if err := proto.Unmarshal(data, &msg); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, data := range msg.Lines {
		l, err := history.DecodeLine(data)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if r.kept.Apply(&l) {
			r.changed[l.Block.Minute()] = true
		}
	}
	for _, data := range msg.Keys {
		l, err := history.DecodeKeysLine(data)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if r.keys.Apply(&l) {
			r.changedKeys[l.Minute] = true
		}
	}
	return errors.Join(errs...)
}

// snapshot returns the state.
func (r *historyReplica) snapshot() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.kept.Append(nil)
	return r.keys.Append(append(binary.AppendUvarint(nil, uint64(len(kept))), kept...))
}

// decodeHistory reads a snapshot.
func decodeHistory(data []byte) (*history.Kept, *history.KeptKeys, error) {
	size, n := binary.Uvarint(data)
	if n <= 0 || size > uint64(len(data)-n) {
		return nil, nil, errors.New("history: cut off")
	}
	kept, err := history.DecodeKept(data[n : n+int(size)])
	if err != nil {
		return nil, nil, err
	}
	keys, err := history.DecodeKeptKeys(data[n+int(size):])
	return kept, keys, err
}

// restore replaces the state. What its minutes are on disk may be less than what it says.
func (r *historyReplica) restore(k *history.Kept, keys *history.KeptKeys) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept, r.keys, r.collector = k, keys, nil
	clear(r.changed)
	clear(r.changedKeys)
	for _, m := range keys.Minutes() {
		r.changedKeys[m] = true
	}
	first, any := k.First()
	if !any {
		return
	}
	for newest, _ := k.Newest(); first <= newest; first++ {
		r.changed[first.Minute()] = true
	}
}

// lead begins to gather: all lines of earlier leaders are applied here.
func (r *historyReplica) lead(at quota.Time, term quota.Term) {
	now := second(at)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collector, r.term, r.held, r.writing = history.NewCollector(now, r.kept), term, 0, false
	r.lists, r.listing, r.listed, r.since = nil, 0, now.Block().Minute()-1, at
	if _, any := r.keys.Newest(); !any {
		r.listed-- // the first leader lists at once, so that what it does not list is missed
	}
}

// unlisted reports whether a list that was made here is not in the log yet.
func (r *historyReplica) unlisted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.collector != nil && len(r.lists) > 0
}

// follow ends that. What was told and not written will be told to the next leader.
func (r *historyReplica) follow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collector = nil
}

// take takes what a process tells of its blocks from first on. It returns the first one that
// the log does not have.
func (r *historyReplica) take(now history.Second, from history.Process, first history.Block, all []history.Told) (next history.Block, term quota.Term, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.collector == nil {
		return 0, 0, false
	}
	r.collector.Take(now, all)
	// What is closed the log has, for all it matters: a teller whose clock is years behind is not counted through.
	for next = max(first, min(r.kept.Open(), now.Block()+1)); next <= now.Block() && r.kept.Has(from, next); {
		next++
	}
	return next, r.term, true
}

// Bounds of lines that are written.
const (
	maxHistoryEntry = 1 << 20 // bytes of an entry of the log, unless one line is larger
	maxIdle         = 60      // seconds for which lines without any counts wait for others
	maxLists        = 4       // lists of keys that wait for the log
)

// turn notes who is alive, and returns the lines to be written now, with the blocks that they
// are of. None while some are being written.
func (r *historyReplica) turn(now history.Second, alive []history.Process) (out *raftlogv1.HistoryLines, blocks []history.Block, term quota.Term) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.collector == nil {
		return nil, nil, 0
	}
	r.collector.Alive(now, alive)
	if r.writing {
		return nil, nil, 0
	}
	all := r.collector.Lines(now)
	if len(r.lists) > 0 {
		r.held = 0 // all goes with the list
	} else if r.idle(now, all) {
		for i := range all {
			r.collector.Written(all[i].Block, false)
		}
		return nil, nil, 0
	}
	size := 0
	out = &raftlogv1.HistoryLines{Keys: slices.Clone(r.lists)}
	r.listing = len(r.lists)
	for i := range all {
		if size >= maxHistoryEntry {
			r.collector.Written(all[i].Block, false) // in the next turn
			continue
		}
		data := all[i].Append(nil)
		size += len(data)
		out.Lines, blocks = append(out.Lines, data), append(blocks, all[i].Block)
	}
	if r.writing = len(out.Lines)+len(out.Keys) > 0; !r.writing {
		return nil, nil, 0
	}
	return out, blocks, r.term
}

// idle reports whether the lines can wait: a range that no limit in use has for its home
// writes once a minute. What was counted does not wait, nor who completes a block of which
// something was.
func (r *historyReplica) idle(now history.Second, all []history.Line) bool {
	for i := range all {
		if len(all[i].Slices) > 0 || all[i].Block.End() > now || r.kept.Used(all[i].Block) {
			r.held = 0
			return false
		}
	}
	if len(all) == 0 {
		return false
	}
	if r.held == 0 || r.held > now {
		r.held = now
	}
	if now-r.held < maxIdle {
		return true
	}
	r.held = 0
	return false
}

// written says what became of lines of that term.
func (r *historyReplica) written(term quota.Term, blocks []history.Block, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.collector == nil || r.term != term {
		return
	}
	for _, b := range blocks {
		r.collector.Written(b, ok)
	}
	if ok {
		r.lists = r.lists[r.listing:]
	}
	r.writing, r.listing = false, 0
}

// wantsList returns the minute whose keys are to be listed now; false if none is. Ranges have
// their turn in different seconds.
func (r *historyReplica) wantsList(now history.Second, id quota.RangeID) (history.Minute, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := now.Block().Minute() - 1
	return m, r.collector != nil && len(r.lists) == 0 && m > r.listed && now%60 >= history.Second(id%10)
}

// setList has the keys of a minute written. Empty lists are too: they say that there is nothing
// to list. Of a leader that hands over, ends says that this is the last.
func (r *historyReplica) setList(now quota.Time, term quota.Term, m history.Minute, lists []history.TopKeys, ends bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.collector == nil || r.term != term {
		return
	}
	if len(r.lists) >= maxLists { // there will be a gap
		r.since = now
		return
	}
	l := history.KeysLine{Minute: m, By: history.Lister{Term: uint64(term), At: now}, Since: r.since, Ends: ends, Lists: lists}
	r.lists = append(r.lists, l.Append(nil))
	r.listed, r.since = m, now
}
