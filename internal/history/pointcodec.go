package history

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/quorate/quorate/internal/quota"
)

// Append appends the point's amounts to b. Its time and completeness are stored separately: they are the
// same for all limits of a range.
func (p *Point) Append(b []byte) []byte {
	for _, u := range p.amounts() {
		b = binary.AppendVarint(b, int64(*u))
	}
	return b
}

func (p *Point) amounts() [10]*quota.Units {
	return [...]*quota.Units{&p.Attempted, &p.Admitted, &p.Over, &p.Needless, &p.NeedlessAtMost, &p.Peak, &p.Mean, &p.P50, &p.P95, &p.P99}
}

var errPoint = errors.New("history: damaged point")

// DecodePoint decodes the output of Append.
func DecodePoint(b []byte) (Point, error) {
	d, p := &decoder{b: b}, Point{}
	for _, u := range p.amounts() {
		*u = d.units(1<<63 - 1)
	}
	if d.err == nil && len(d.b) > 0 {
		d.fail(errPoint)
	}
	if d.err != nil {
		return Point{}, fmt.Errorf("point: %w", d.err)
	}
	return p, nil
}

// AppendProcesses appends encoded processes to b. DecodeProcesses is its inverse.
func AppendProcesses(b []byte, all []Process) []byte { return appendProcesses(b, all) }

// DecodeProcesses decodes processes. It fails if anything follows.
func DecodeProcesses(b []byte) ([]Process, error) {
	d := &decoder{b: b}
	out := d.processes()
	if d.err == nil && len(d.b) > 0 {
		d.fail(errLine)
	}
	return out, d.err
}
