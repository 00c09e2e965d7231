package recorder

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
)

// Replica holds a range's part of the history, as its log has produced it, and the uploads that it
// collects while this node leads the range. All methods are safe for concurrent use.
type Replica struct {
	Mu     sync.Mutex
	Recent *history.Recent
	keys   *history.RecentKeys
	// changed holds the minutes with lines that have changed since they were last stored. It never
	// exceeds the minutes in Recent.
	changed map[history.Minute]bool
	// changedKeys holds the minutes with lists of keys that have changed since they were last stored.
	changedKeys map[history.Minute]bool

	Collector *history.Collector // nil unless this node leads the range
	term      quota.Term
	idleSince history.Second // since when lines without counts have been waiting for others; 0 if none wait
	idleTo    history.Second // to here, every process has uploaded that it counted nothing since the newest line
	writing   bool
	Lists     [][]byte       // lists of keys to be written: usually one, plus one from a leader that hands over
	listing   int            // how many of Lists are on their way into the log
	hurried   bool           // Lists has the first of the range or the last of this leader, which do not wait for the others
	Listed    history.Minute // the last minute listed in this term
	since     quota.Time     // when the last list was made, or the term began
}

// NewReplica returns an empty replica.
func NewReplica() *Replica {
	return &Replica{Recent: history.NewRecent(), keys: history.NewRecentKeys(), changed: map[history.Minute]bool{}, changedKeys: map[history.Minute]bool{}}
}

// Apply applies lines from the log. It skips lines that this version cannot read, and returns an error
// for them.
func (r *Replica) Apply(msg *raftlogv1.HistoryLines) error {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	var errs []error
	for _, data := range msg.Lines {
		l, err := history.DecodeLine(data)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if r.Recent.Apply(&l) {
			r.changed[l.Slot.Minute()] = true
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

// Snapshot returns the encoded state.
func (r *Replica) Snapshot() []byte {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	kept := r.Recent.Append(nil)
	return r.keys.Append(append(binary.AppendUvarint(nil, uint64(len(kept))), kept...))
}

// Decode decodes a snapshot.
func Decode(data []byte) (*history.Recent, *history.RecentKeys, error) {
	size, n := binary.Uvarint(data)
	if n <= 0 || size > uint64(len(data)-n) {
		return nil, nil, errors.New("history: cut off")
	}
	kept, err := history.DecodeRecent(data[n : n+int(size)])
	if err != nil {
		return nil, nil, err
	}
	keys, err := history.DecodeRecentKeys(data[n+int(size):])
	return kept, keys, err
}

// Restore replaces the state. It marks every minute as changed, because the disk may have less.
func (r *Replica) Restore(k *history.Recent, keys *history.RecentKeys) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Recent, r.keys, r.Collector = k, keys, nil
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

// Lead starts collecting uploads. All lines of earlier leaders are applied by then.
func (r *Replica) Lead(at quota.Time, term quota.Term) {
	now := Second(at)
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Collector, r.term, r.idleSince, r.idleTo, r.writing = history.NewCollector(now, r.Recent), term, 0, 0, false
	r.Lists, r.listing, r.hurried, r.Listed, r.since = nil, 0, false, now.Slot().Minute()-1, at
	if _, any := r.keys.Newest(); !any { // once this first list is in the log, a gap covers what this leader does not list
		first := history.KeysLine{Minute: r.Listed, By: history.Lister{Term: uint64(term), At: at}, Since: at}
		r.Lists, r.hurried = [][]byte{first.Append(nil)}, true
	}
}

// unlisted reports whether a list made on this node is not in the log yet.
func (r *Replica) unlisted() bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.Collector != nil && len(r.Lists) > 0
}

// Follow stops collecting. Uploads that were not written are uploaded to the next leader.
func (r *Replica) Follow() {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Collector = nil
}

// Accept adds the uploads of a process, which counts its slots from first on. It returns the first slot
// that the log does not have.
func (r *Replica) Accept(now history.Second, from history.Process, first history.Slot, all []history.Upload) (next history.Slot, term quota.Term, ok bool) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.Collector == nil {
		return 0, 0, false
	}
	r.Collector.Add(now, all)
	// A closed slot counts as logged, so a sender whose clock is years behind costs no long loop.
	for next = max(first, min(r.Recent.Open(), now.Slot()+1)); next <= now.Slot() && r.Recent.Has(from, next); {
		next++
	}
	return next, r.term, true
}

// Bounds on lines to be written.
const (
	maxHistoryEntry = 1 << 20 // bytes in a log entry, unless a single line is larger
	MaxIdle         = 60      // seconds that lines without counts wait for others
	maxLists        = 4       // lists of keys waiting for the log
	// listsAt is the second of a minute from which on its lists of keys are written. All ranges have
	// made theirs by then, and the lines of the minute's first slot are complete: everything is one
	// entry for each range, and these come together, so that they share the syncs of the logs.
	listsAt = 11
)

// Lines records which processes are alive, and returns the lines to be written now, with their slots.
// It returns nil while earlier lines are being written.
func (r *Replica) Lines(now history.Second, alive []history.Process) (out *raftlogv1.HistoryLines, slots []history.Slot, term quota.Term) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.Collector == nil {
		return nil, nil, 0
	}
	r.Collector.Alive(now, alive)
	if r.writing {
		return nil, nil, 0
	}
	all := r.Collector.Lines(now)
	if len(r.Lists) > 0 && (now%60 >= listsAt || r.hurried) {
		r.idleSince = 0 // everything goes with the list
	} else if r.idle(now, all) {
		r.idleTo = r.knownIdle(all)
		for i := range all {
			r.Collector.Written(all[i].Slot, false)
		}
		return nil, nil, 0
	}
	size := 0
	out = &raftlogv1.HistoryLines{Keys: slices.Clone(r.Lists)}
	r.listing = len(r.Lists)
	for i := range all {
		if size >= maxHistoryEntry {
			r.Collector.Written(all[i].Slot, false) // left for the next round
			continue
		}
		data := all[i].Append(nil)
		size += len(data)
		out.Lines, slots = append(out.Lines, data), append(slots, all[i].Slot)
	}
	if r.writing = len(out.Lines) > 0 || len(out.Keys) > 0 && (now%60 >= listsAt || r.hurried); !r.writing {
		r.listing = 0
		return nil, nil, 0
	}
	return out, slots, r.term
}

// idle reports whether the lines can wait. A range that owns no limit in use writes once a minute. Lines
// with counts do not wait, and neither do lines that complete a slot with counts.
func (r *Replica) idle(now history.Second, all []history.Line) bool {
	for i := range all {
		if len(all[i].Slices) > 0 || all[i].Slot.End() > now || r.Recent.Used(all[i].Slot) {
			r.idleSince = 0
			return false
		}
	}
	if len(all) == 0 {
		return false
	}
	if all[0].Slot.End()+MaxIdle+history.SlotSeconds <= now { // leaders before this one waited too: catch up
		r.idleSince = 0
		return false
	}
	if r.idleSince == 0 || r.idleSince > now {
		r.idleSince = now
	}
	if now-r.idleSince < MaxIdle {
		return true
	}
	r.idleSince = 0
	return false
}

// knownIdle returns the end of the slots that follow the newest line without a gap and whose lines wait,
// complete and without counts.
func (r *Replica) knownIdle(waiting []history.Line) history.Second {
	end := r.asOf()
	for i := range waiting {
		l := &waiting[i]
		if l.Slot.First() != end || slices.ContainsFunc(l.Expected, func(p history.Process) bool { return !slices.Contains(l.From, p) }) {
			break
		}
		end = l.Slot.End()
	}
	return end
}

// Written records whether the lines of the given term reached the log.
func (r *Replica) Written(term quota.Term, slots []history.Slot, ok bool) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.Collector == nil || r.term != term {
		return
	}
	for _, b := range slots {
		r.Collector.Written(b, ok)
	}
	if ok {
		r.Lists = r.Lists[r.listing:]
		r.hurried = r.hurried && len(r.Lists) > 0
	}
	r.writing, r.listing = false, 0
}

// wantsList returns the minute whose keys must be listed now; false if none. Ranges take turns in
// different seconds, because a list takes CPU; they are written together, see listsAt.
func (r *Replica) wantsList(now history.Second, id quota.RangeID) (history.Minute, bool) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	m := now.Slot().Minute() - 1
	return m, r.Collector != nil && len(r.Lists) == 0 && m > r.Listed && now%60 >= history.Second(id%10)
}

// setList queues the keys of a minute for the log. Empty lists are queued too: they say that there is
// nothing to list. ends marks the last list of a leader that hands over or stops.
func (r *Replica) setList(now quota.Time, term quota.Term, m history.Minute, lists []history.TopKeys, ends bool) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.Collector == nil || r.term != term {
		return
	}
	if len(r.Lists) >= maxLists { // leaves a gap
		r.since = now
		return
	}
	l := history.KeysLine{Minute: m, By: history.Lister{Term: uint64(term), At: now}, Since: r.since, Lists: lists}
	r.Lists = append(r.Lists, l.Append(nil))
	r.Listed, r.since, r.hurried = m, now, r.hurried || ends
}
