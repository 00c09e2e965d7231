package history

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/quorate/quorate/internal/quota"
)

// Line is an entry of a range's log: the sum of the uploads that some processes made of a slot.
type Line struct {
	Slot     Slot
	Expected []Process // processes that lived in the slot, as far as the leader knows; ordered, without duplicates
	From     []Process // processes with an upload in the line; ordered, without duplicates
	Ended    []Process // processes in From that upload no later slot; ordered, without duplicates
	Slices   []Slice   // ordered by limit, without duplicates
}

// Bounds on an encoded line.
const (
	maxProcesses = 10_000
	maxName      = quota.MaxNameLen
)

// lineForm begins an encoded line and identifies its form.
const lineForm = 1

var errLine = errors.New("history: damaged line")

// Append appends the encoded line to b. DecodeLine is its inverse.
func (l *Line) Append(b []byte) []byte {
	b = binary.AppendUvarint(append(b, lineForm), uint64(l.Slot))
	b = appendProcesses(b, l.Expected)
	b = appendProcesses(b, l.From)
	b = appendProcesses(b, l.Ended)
	return appendSlices(b, l.Slices)
}

func appendProcesses(b []byte, all []Process) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for i := range all {
		b = binary.AppendUvarint(appendText(b, string(all[i].Node)), uint64(all[i].Incarnation))
	}
	return b
}

func appendSlices(b []byte, all []Slice) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	namespace := ""
	for i := range all {
		s := &all[i]
		if s.Limit.Namespace == namespace {
			b = appendText(b, "")
		} else {
			b, namespace = appendText(b, s.Limit.Namespace), s.Limit.Namespace
		}
		b = appendVector(appendText(b, s.Limit.Limit), &s.Counts)
	}
	return b
}

// DecodeLine decodes a line. It fails if the line is damaged, or larger than any line that a leader makes.
func DecodeLine(b []byte) (Line, error) {
	if len(b) == 0 || b[0] != lineForm {
		return Line{}, fmt.Errorf("%w: of another form", errLine)
	}
	d := &decoder{b: b[1:]}
	l := Line{Slot: Slot(d.uint(maxSlot))}
	l.Expected, l.From, l.Ended = d.processes(), d.processes(), d.processes()
	l.Slices = d.slices()
	if d.err == nil && len(d.b) > 0 {
		d.fail(errLine)
	}
	if d.err != nil {
		return Line{}, fmt.Errorf("line of time slot %d: %w", l.Slot, d.err)
	}
	if err := l.check(); err != nil {
		return Line{}, err
	}
	return l, nil
}

// Append appends the encoded upload to b, without its process, which the message names. DecodeUpload is
// its inverse.
func (t *Upload) Append(b []byte) []byte {
	l := Line{Slot: t.Slot, Expected: t.Seen, Slices: t.Slices}
	if t.Last {
		l.Ended = []Process{t.From}
	}
	return l.Append(b)
}

// DecodeUpload decodes an upload of the process from. It fails as DecodeLine does.
func DecodeUpload(from Process, b []byte) (Upload, error) {
	l, err := DecodeLine(b)
	if err == nil && len(l.From) > 0 {
		err = fmt.Errorf("%w: several time slots", errLine)
	}
	return Upload{From: from, Slot: l.Slot, Seen: l.Expected, Slices: l.Slices, Last: len(l.Ended) > 0}, err
}

// maxSlot is the first slot of the year 10000.
const maxSlot = 253_402_300_800 / SlotSeconds

func (d *decoder) processes() []Process {
	var out []Process
	for range d.uint(maxProcesses) {
		p := Process{quota.NodeID(d.text(maxName)), quota.Incarnation(d.uint(1<<64 - 1))}
		if d.err != nil {
			return nil
		}
		out = append(out, p)
	}
	return out
}

func (d *decoder) slices() []Slice {
	var out []Slice
	namespace := ""
	for range d.uint(MaxLimits + 1) {
		if ns := d.text(maxName); ns != "" {
			namespace = ns
		}
		s := Slice{Limit: quota.LimitName{Namespace: namespace, Limit: d.text(maxName)}, Counts: d.vector()}
		if d.err != nil {
			return nil
		}
		out = append(out, s)
	}
	return out
}

// check returns an error unless every list is ordered and free of duplicates, so that equal lines have
// equal bytes.
func (l *Line) check() error {
	for _, all := range [][]Process{l.Expected, l.From, l.Ended} {
		if !ordered(all, compareProcesses) {
			return fmt.Errorf("%w: processes out of order", errLine)
		}
	}
	if !ordered(l.Slices, func(a, b Slice) int { return a.Limit.Compare(b.Limit) }) {
		return fmt.Errorf("%w: limits out of order", errLine)
	}
	return nil
}

// ordered reports whether each element is greater than the one before it.
func ordered[T any](all []T, compare func(a, b T) int) bool {
	for i := 1; i < len(all); i++ {
		if compare(all[i-1], all[i]) >= 0 {
			return false
		}
	}
	return true
}
