package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// recentForm begins an encoded state and identifies its form.
const recentForm = 1

// maxRecentLimits bounds the limits of a decoded slot. A slot has several lines only when processes
// upload late, and then few lines have limits that no other line has.
const maxRecentLimits = 64 * MaxLimits

var errKept = errors.New("history: damaged state")

// Append appends the encoded state to b. All replicas that have applied the same lines produce the same
// bytes. DecodeRecent is its inverse.
func (k *Recent) Append(b []byte) []byte {
	b = append(b, recentForm)
	for _, n := range []uint64{uint64(k.oldest), uint64(k.newest), uint64(len(k.slots))} {
		b = binary.AppendUvarint(b, n)
	}
	for _, at := range slices.Sorted(maps.Keys(k.slots)) {
		s := k.slots[at]
		b = binary.AppendUvarint(b, uint64(at))
		b = appendProcesses(b, sorted(maps.Keys(s.expected)))
		b = appendProcesses(b, sorted(maps.Keys(s.from)))
		b = appendProcesses(b, sorted(maps.Keys(s.ended)))
		b = binary.AppendUvarint(b, uint64(len(s.of)))
		for _, limit := range slices.SortedFunc(maps.Keys(s.of), quota.LimitName.Compare) {
			b = appendText(appendText(b, limit.Namespace), limit.Limit)
			b = append(b, s.of[limit]...)
		}
	}
	return b
}

// DecodeRecent decodes a state.
func DecodeRecent(b []byte) (*Recent, error) {
	if len(b) == 0 || b[0] != recentForm {
		return nil, fmt.Errorf("%w: of another form", errKept)
	}
	d, k := &decoder{b: b[1:]}, NewRecent()
	k.oldest, k.newest = Slot(d.uint(maxSlot)), Slot(d.uint(maxSlot))
	last := Slot(-1)
	for range d.uint(MaxBehind + MaxGrace + 1) {
		at := Slot(d.uint(maxSlot))
		if at <= last || at > k.newest {
			d.fail(errKept)
		}
		last = at
		s, err := d.sum()
		if err != nil {
			return nil, fmt.Errorf("state: time slot %d: %w", at, err)
		}
		k.slots[at] = s
		for p := range s.ended {
			k.ended[p] = at
		}
	}
	if d.err == nil && len(d.b) > 0 {
		d.fail(errKept)
	}
	if d.err != nil {
		return nil, fmt.Errorf("state: %w", d.err)
	}
	return k, nil
}

func (d *decoder) sum() (*slotSum, error) {
	s := newSlotSum()
	for _, to := range []map[Process]bool{s.expected, s.from, s.ended} {
		all := d.processes()
		if !ordered(all, compareProcesses) {
			d.fail(errKept)
		}
		for _, p := range all {
			to[p] = true
		}
	}
	last := quota.LimitName{}
	for i := range d.uint(maxRecentLimits) {
		limit := quota.LimitName{Namespace: d.text(maxName), Limit: d.text(maxName)}
		v := d.vector()
		if i > 0 && last.Compare(limit) >= 0 {
			d.fail(errKept)
		}
		if d.err != nil {
			return nil, d.err
		}
		last = limit
		s.of[limit] = appendVector(nil, &v)
	}
	return s, d.err
}
