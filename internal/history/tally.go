package history

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// Bounds on a Tally.
const (
	// MaxBehind is how many unaccepted slots a process holds: an hour.
	MaxBehind = 3600 / SlotSeconds
	// MaxSlices is how many slices a Tally holds in total: some 60 MB at most.
	MaxSlices = 100_000
	// MaxLimits is how many limits a slot of a range has. Less used limits are counted together as
	// Other.
	MaxLimits = 2000
)

// Other is the name under which limits beyond MaxLimits are counted.
var Other = quota.LimitName{Namespace: "@other", Limit: "@other"}

// Tally counts what happened in a process, by slot and limit, until the logs of the owner ranges have it.
// At its bounds it drops the oldest slot (Dropped), which then stays incomplete forever. It is not safe
// for concurrent use.
type Tally struct {
	self  Process
	owner func(quota.LimitName) quota.RangeID

	ended Second // the second of End; -1 before

	slots        map[Slot]*slotTally
	first        Slot   // the oldest slot held
	acknowledged []Slot // by range: the log has all earlier slots
	uploaded     []Slot // by range: all earlier slots have been uploaded, and no longer change
	slices       int
	dropped      int64
}

type slotTally struct {
	of   map[quota.LimitName]*Vector
	seen []Process
}

// NewTally returns an empty tally for a process that starts at now. owner returns the range that stores a
// limit's history; it must be less than ranges.
func NewTally(self Process, now Second, ranges int, owner func(quota.LimitName) quota.RangeID) *Tally {
	t := &Tally{
		self: self, owner: owner, ended: -1,
		slots: map[Slot]*slotTally{}, first: now.Slot(), acknowledged: make([]Slot, ranges), uploaded: make([]Slot, ranges),
	}
	for r := range t.acknowledged {
		t.acknowledged[r], t.uploaded[r] = t.first, t.first
	}
	return t
}

// Add counts what happened in a second. If the second's slot has already been uploaded, because the count
// is late or the clock was set back, it counts in the first second after the uploaded slots.
func (t *Tally) Add(at Second, limit quota.LimitName, c Counts) {
	if c == (Counts{}) {
		return
	}
	at = max(at, t.uploaded[t.owner(limit)].First())
	p := t.slot(at.Slot())
	v := p.of[limit]
	if v == nil {
		v = &Vector{}
		p.of[limit] = v
		t.slices++
	}
	v[at.in()].Add(&c)
}

func (t *Tally) slot(at Slot) *slotTally {
	p := t.slots[at]
	if p == nil {
		p = &slotTally{of: map[quota.LimitName]*Vector{}}
		t.slots[at] = p
	}
	return p
}

// Saw records the first sight of a process. Leaders that begin later use it to know which processes to
// wait for.
func (t *Tally) Saw(now Second, p Process) {
	at := t.slot(max(now.Slot(), slices.Max(t.uploaded)))
	i, there := slices.BinarySearchFunc(at.seen, p, compareProcesses)
	if !there {
		at.seen = slices.Insert(at.seen, i, p)
	}
}

// End ends the tally at now. Nothing may be counted after it, and Pending also returns the slot of now.
func (t *Tally) End(now Second) { t.ended = now }

// Pending returns what to upload to the leader of the range: at most most of the slots that have ended
// and are not acknowledged, oldest first.
func (t *Tally) Pending(now Second, r quota.RangeID, most int) []Upload {
	var out []Upload
	for at := max(t.acknowledged[r], t.first); t.isOver(at, now) && len(out) < most; at++ {
		out = append(out, t.upload(at, r))
		t.uploaded[r] = max(t.uploaded[r], at+1)
	}
	return out
}

// First returns the first slot that Pending would return; false if it would return none.
func (t *Tally) First(now Second, r quota.RangeID) (Slot, bool) {
	at := max(t.acknowledged[r], t.first)
	return at, t.isOver(at, now)
}

// Last returns the last slot that has ended.
func (t *Tally) Last(now Second) Slot {
	if t.ended >= 0 {
		return t.ended.Slot()
	}
	return now.Slot() - 1
}

func (t *Tally) isOver(at Slot, now Second) bool {
	if t.ended >= 0 {
		return at <= t.ended.Slot()
	}
	return at.End() <= now
}

func (t *Tally) upload(at Slot, r quota.RangeID) Upload {
	out := Upload{From: t.self, Slot: at, Last: t.ended >= 0 && at == t.ended.Slot()}
	p := t.slots[at]
	if p == nil {
		return out
	}
	for limit, v := range p.of {
		if t.owner(limit) == r {
			out.Slices = append(out.Slices, Slice{limit, *v})
		}
	}
	slices.SortFunc(out.Slices, func(a, b Slice) int { return a.Limit.Compare(b.Limit) })
	out.Seen, out.Slices = p.seen, capLimits(out.Slices)
	return out
}

// capLimits keeps the MaxLimits most used limits, and counts the others as Other.
func capLimits(all []Slice) []Slice {
	if len(all) <= MaxLimits {
		return all
	}
	rest := Slice{Limit: Other}
	all = slices.DeleteFunc(all, func(s Slice) bool {
		if s.Limit == Other {
			rest.Counts.Add(&s.Counts)
		}
		return s.Limit == Other
	})
	slices.SortFunc(all, func(a, b Slice) int {
		x, y := a.Counts.Sum(), b.Counts.Sum()
		return cmp.Or(cmp.Compare(y.Attempted, x.Attempted), a.Limit.Compare(b.Limit))
	})
	for i := MaxLimits; i < len(all); i++ {
		rest.Counts.Add(&all[i].Counts)
	}
	all = append(all[:min(len(all), MaxLimits)], rest)
	slices.SortFunc(all, func(a, b Slice) int { return a.Limit.Compare(b.Limit) })
	return all
}

// Acknowledge records that the range's log has all of this process's slots before next.
func (t *Tally) Acknowledge(r quota.RangeID, next Slot) {
	t.acknowledged[r] = max(t.acknowledged[r], min(next, t.uploaded[r]))
	t.release()
}

// Expire drops the oldest slots beyond MaxBehind and MaxSlices, which the Tally holds for unreachable leaders.
func (t *Tally) Expire(now Second) {
	oldest := now.Slot() - MaxBehind
	for t.first < oldest || t.slices > MaxSlices && t.first < now.Slot() {
		for r := range t.acknowledged {
			if t.acknowledged[r] <= t.first {
				t.acknowledged[r], t.uploaded[r] = t.first+1, max(t.uploaded[r], t.first+1)
				t.dropped++
			}
		}
		t.release()
	}
}

// Dropped returns how many slots no leader accepted in time, counted once per range.
func (t *Tally) Dropped() int64 { return t.dropped }

// release frees the slots that the logs of all ranges have.
func (t *Tally) release() {
	for next := slices.Min(t.acknowledged); t.first < next; t.first++ {
		if p := t.slots[t.first]; p != nil {
			t.slices -= len(p.of)
			delete(t.slots, t.first)
		}
	}
}
