package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// keptForm begins an encoded state.
const keptForm = 1

// maxKeptLimits bounds the limits of a block that is read: a block has several lines at
// most when processes come late, and then few have limits that no other line has.
const maxKeptLimits = 64 * MaxLimits

var errKept = errors.New("history: damaged state")

// Append appends the state: the same bytes on every replica that has applied the same lines.
// DecodeKept is its inverse.
func (k *Kept) Append(b []byte) []byte {
	b = append(b, keptForm)
	for _, n := range []uint64{uint64(k.oldest), uint64(k.newest), uint64(len(k.blocks))} {
		b = binary.AppendUvarint(b, n)
	}
	for _, at := range slices.Sorted(maps.Keys(k.blocks)) {
		s := k.blocks[at]
		b = binary.AppendUvarint(b, uint64(at))
		b = appendProcesses(b, sorted(maps.Keys(s.expected)))
		b = appendProcesses(b, sorted(maps.Keys(s.from)))
		b = appendProcesses(b, sorted(maps.Keys(s.ended)))
		b = binary.AppendUvarint(b, uint64(len(s.of)))
		for _, limit := range slices.SortedFunc(maps.Keys(s.of), compareLimits) {
			b = appendText(appendText(b, limit.Namespace), limit.Limit)
			b = append(b, s.of[limit]...)
		}
	}
	return b
}

// DecodeKept reads a state.
func DecodeKept(b []byte) (*Kept, error) {
	if len(b) == 0 || b[0] != keptForm {
		return nil, fmt.Errorf("%w: of another form", errKept)
	}
	d, k := &decoder{b: b[1:]}, NewKept()
	k.oldest, k.newest = Block(d.uint(maxBlock)), Block(d.uint(maxBlock))
	last := Block(-1)
	for range d.uint(MaxBehind + MaxGrace + 1) {
		at := Block(d.uint(maxBlock))
		if at <= last || at > k.newest {
			d.fail(errKept)
		}
		last = at
		s, err := d.sum()
		if err != nil {
			return nil, fmt.Errorf("state: time slot %d: %w", at, err)
		}
		k.blocks[at] = s
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

func (d *decoder) sum() (*sum, error) {
	s := newSum()
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
	for i := range d.uint(maxKeptLimits) {
		limit := quota.LimitName{Namespace: d.text(maxName), Limit: d.text(maxName)}
		v := d.vector()
		if i > 0 && compareLimits(last, limit) >= 0 {
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
