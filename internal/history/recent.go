package history

import (
	"cmp"
	"maps"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

func compareProcesses(a, b Process) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Incarnation, b.Incarnation))
}

// Recent holds a replica's recent slots: the sum of the lines in its range's log. Replicas that have
// applied the same lines are equal. It is not safe for concurrent use.
type Recent struct {
	slots  map[Slot]*slotSum
	ended  map[Process]Slot // the last slot of processes that stopped in order
	oldest Slot             // Apply ignores lines of earlier slots
	newest Slot
}

// slotSum holds what is known about a slot.
type slotSum struct {
	expected map[Process]bool
	from     map[Process]bool
	ended    map[Process]bool
	of       map[quota.LimitName][]byte // packed vectors
}

func newSlotSum() *slotSum {
	return &slotSum{expected: map[Process]bool{}, from: map[Process]bool{}, ended: map[Process]bool{}, of: map[quota.LimitName][]byte{}}
}

// NewRecent returns the state of a replica that has applied no line.
func NewRecent() *Recent { return &Recent{slots: map[Slot]*slotSum{}, ended: map[Process]Slot{}} }

// Apply applies a line, and reports whether it changed anything. It ignores a line that contains an upload
// already present, or a slot that is closed to additions.
func (k *Recent) Apply(l *Line) bool {
	if l.Slot < k.oldest {
		return false
	}
	s := k.slots[l.Slot]
	if s == nil {
		s = newSlotSum()
		k.slots[l.Slot] = s
	}
	for i := range l.From {
		if s.from[l.From[i]] {
			return false
		}
	}
	s.add(l)
	for _, p := range l.Ended {
		k.ended[p] = l.Slot
	}
	k.newest = max(k.newest, l.Slot)
	k.trim(k.newest - MaxBehind)
	return true
}

func (s *slotSum) add(l *Line) {
	for _, p := range l.Expected {
		s.expected[p] = true
	}
	for _, p := range l.From {
		s.from[p] = true
	}
	for _, p := range l.Ended {
		s.ended[p] = true
	}
	for i := range l.Slices {
		sum := s.vector(l.Slices[i].Limit)
		sum.Add(&l.Slices[i].Counts)
		s.of[l.Slices[i].Limit] = appendVector(nil, &sum)
	}
}

func (s *slotSum) vector(l quota.LimitName) Vector {
	packed, there := s.of[l]
	if !there {
		return Vector{}
	}
	return (&decoder{b: packed}).vector()
}

// Has reports whether the process's upload of the slot is present or would be too late.
func (k *Recent) Has(p Process, b Slot) bool {
	if b < k.oldest {
		return true
	}
	s := k.slots[b]
	return s != nil && s.from[p]
}

// Open returns the first slot that is open to additions.
func (k *Recent) Open() Slot { return k.oldest }

// missing returns the processes that lived in the slot and have not uploaded it, in order.
func (k *Recent) missing(b Slot, s *slotSum) []Process {
	var out []Process
	for p := range s.expected {
		if !s.from[p] && !k.stopped(p, b) && !k.replaced(p, b) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, compareProcesses)
	return out
}

// replaced reports whether a later process of the same node has uploaded both the slot and the one before
// it: then p was dead in the slot. A leader that relies on lines from before a stop of the whole cluster
// expects the processes that lived then.
func (k *Recent) replaced(p Process, b Slot) bool {
	s, before := k.slots[b], k.slots[b-1]
	if s == nil || before == nil {
		return false
	}
	for q := range s.from {
		if q.Node == p.Node && q.Incarnation > p.Incarnation && before.from[q] {
			return true
		}
	}
	return false
}

// MaxGrace is how many more slots remain readable after they are closed to additions, so that a point of
// a finished hour can still be made.
const MaxGrace = 300 / SlotSeconds

// trim closes slots to additions, and drops slots that have been closed for MaxGrace. It depends only on
// the log, so that replicas stay equal.
func (k *Recent) trim(oldest Slot) {
	if oldest <= k.oldest {
		return
	}
	k.oldest = oldest
	maps.DeleteFunc(k.slots, func(b Slot, _ *slotSum) bool { return b < oldest-MaxGrace })
	maps.DeleteFunc(k.ended, func(_ Process, b Slot) bool { return b < oldest-MaxGrace })
}

// Newest returns the newest slot that has a line; false if none has.
func (k *Recent) Newest() (Slot, bool) { return k.newest, len(k.slots) > 0 }

// First returns the first slot from which on nothing has been dropped; false if there are no slots. If no
// slot of its hour was dropped it is the beginning of the hour, even if nothing of that was ever uploaded.
func (k *Recent) First() (Slot, bool) {
	if len(k.slots) == 0 {
		return 0, false
	}
	first := k.newest
	for b := range k.slots {
		first = min(first, b)
	}
	return max(k.oldest-MaxGrace, first-first%slotsPerHour), true
}

const slotsPerHour = 3600 / SlotSeconds

// Any reports whether any slot from from until before end has a line.
func (k *Recent) Any(from, end Slot) bool {
	for b := from; b < end; b++ {
		if k.slots[b] != nil {
			return true
		}
	}
	return false
}

// Used reports whether anything was counted in the slot.
func (k *Recent) Used(b Slot) bool {
	s := k.slots[b]
	return s != nil && len(s.of) > 0
}

// Limits adds to out the limits that were used from from until before end.
func (k *Recent) Limits(from, end Slot, out map[quota.LimitName]bool) {
	for b, s := range k.slots {
		if b < from || b >= end {
			continue
		}
		for l := range s.of {
			out[l] = true
		}
	}
}

// Covered returns a point that says whether every slot from from until before end is complete, and which
// processes are missing in them.
func (k *Recent) Covered(from, end Slot) Point {
	p := Point{Start: from.First(), Seconds: int(end-from) * SlotSeconds, Complete: end > from}
	for b := from; b < end; b++ {
		if s := k.slots[b]; s != nil {
			p.addMissing(k.missing(b, s))
		} else {
			p.Complete = false
		}
	}
	return p
}

// Seconds returns a point for each second from from until before end that the log covers.
func (k *Recent) Seconds(limit quota.LimitName, from, end Second) []Point {
	var out []Point
	for b := from.Slot(); b.First() < end; b++ {
		s := k.slots[b]
		if s == nil {
			continue
		}
		v, missing := s.vector(limit), k.missing(b, s)
		for i := range v {
			at := b.First() + Second(i)
			if at < from || at >= end {
				continue
			}
			u := v[i].Attempted
			p := Point{Start: at, Seconds: 1, Counts: v[i], Peak: u, Mean: u, P50: u, P95: u, P99: u, Complete: true}
			p.addMissing(missing)
			out = append(out, p)
		}
	}
	return out
}

// addExpected adds to out the processes expected in the slot, or in the last earlier slot that the log
// has: there only those that have not ended since and have no later incarnation.
func (k *Recent) addExpected(b Slot, out map[Process]bool) {
	if s := k.slots[b]; s != nil {
		maps.Copy(out, s.expected)
		return
	}
	for at := b - 1; at >= max(k.oldest, b-MaxBehind); at-- {
		s := k.slots[at]
		if s == nil {
			continue
		}
		newest := map[quota.NodeID]quota.Incarnation{}
		for p := range s.expected {
			newest[p.Node] = max(newest[p.Node], p.Incarnation)
		}
		for node, incarnation := range newest {
			if p := (Process{node, incarnation}); !k.stopped(p, b) {
				out[p] = true
			}
		}
		return
	}
}

// stopped reports whether a process stopped in order before the slot.
func (k *Recent) stopped(p Process, b Slot) bool {
	last, ended := k.ended[p]
	return ended && last < b
}
