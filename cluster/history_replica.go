package cluster

import (
	"errors"
	"fmt"
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
	// changed are the minutes whose lines have changed since they were last stored, at most
	// those that kept has.
	changed map[history.Minute]bool

	collector *history.Collector // nil unless this node leads
	term      quota.Term
	held      history.Second // since when lines without any counts wait for others; 0 is none
	writing   bool
}

func newHistoryReplica() *historyReplica {
	return &historyReplica{kept: history.NewKept(), changed: map[history.Minute]bool{}}
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
	return errors.Join(errs...)
}

// snapshot returns the state; nil if there is none, as in a cluster that has never written
// a line.
func (r *historyReplica) snapshot() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, any := r.kept.Newest(); !any {
		return nil
	}
	return r.kept.Append(nil)
}

// restore replaces the state. What its minutes are on disk may be less than what it says.
func (r *historyReplica) restore(k *history.Kept) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept, r.collector = k, nil
	clear(r.changed)
	first, any := k.First()
	if !any {
		return
	}
	for newest, _ := k.Newest(); first <= newest; first++ {
		r.changed[first.Minute()] = true
	}
}

// lead begins to gather: all lines of earlier leaders are applied here.
func (r *historyReplica) lead(now history.Second, term quota.Term) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collector, r.term, r.held, r.writing = history.NewCollector(now, r.kept), term, 0, false
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
	for next = first; next <= now.Block() && r.kept.Has(from, next); {
		next++
	}
	return next, r.term, true
}

// Bounds of lines that are written.
const (
	maxHistoryEntry = 1 << 20 // bytes of an entry of the log, unless one line is larger
	maxIdle         = 60      // seconds for which lines without any counts wait for others
)

// turn notes who is alive, and returns the lines to be written now, with the blocks that they
// are of. None while some are being written.
func (r *historyReplica) turn(now history.Second, alive []history.Process) (lines [][]byte, blocks []history.Block, term quota.Term) {
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
	if r.idle(now, all) {
		for i := range all {
			r.collector.Written(all[i].Block, false)
		}
		return nil, nil, 0
	}
	size := 0
	for i := range all {
		if size >= maxHistoryEntry {
			r.collector.Written(all[i].Block, false) // in the next turn
			continue
		}
		data := all[i].Append(nil)
		size += len(data)
		lines, blocks = append(lines, data), append(blocks, all[i].Block)
	}
	r.writing = len(lines) > 0
	return lines, blocks, r.term
}

// idle reports whether the lines can wait: a range that no limit in use has for its home
// writes once a minute.
func (r *historyReplica) idle(now history.Second, all []history.Line) bool {
	for i := range all {
		if len(all[i].Slices) > 0 || all[i].Block.End() > now {
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
	r.writing = false
}
