package history

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/quorate/quorate/internal/quota"
)

// A packed vector begins with a number that holds flags: the seconds with counts, the seconds that also
// have Over, Needless or NeedlessAtMost, and whether all amounts are whole tokens (the usual case). For
// each second with counts, the amount attempted and the part of it not admitted follow; then, if
// flagged, the other three.
const (
	extraShift = SlotSeconds
	wholeBit   = 1 << (2 * SlotSeconds)
	headEnd    = wholeBit << 1
)

var errVector = errors.New("history: damaged vector")

// appendVector appends the packed vector to b: one or two bytes for each second with small counts, and
// none for seconds without counts.
func appendVector(b []byte, v *Vector) []byte {
	head, unit := uint64(0), quota.Token
	for i := range v {
		c := &v[i]
		if *c == (Counts{}) {
			continue
		}
		head |= 1 << i
		if c.Over != 0 || c.Needless != 0 || c.NeedlessAtMost != 0 {
			head |= 1 << (extraShift + i)
		}
		if (c.Attempted|c.Admitted) != 0 && (c.Attempted%quota.Token != 0 || c.Admitted%quota.Token != 0) {
			unit = 1
		}
	}
	if unit == quota.Token {
		head |= wholeBit
	}
	b = binary.AppendUvarint(b, head)
	for i := range v {
		c := &v[i]
		if head&(1<<i) == 0 {
			continue
		}
		b = binary.AppendUvarint(b, uint64(c.Attempted/unit))
		b = binary.AppendVarint(b, int64(c.Attempted/unit-c.Admitted/unit))
		if head&(1<<(extraShift+i)) != 0 {
			b = binary.AppendUvarint(b, uint64(c.Over))
			b = binary.AppendUvarint(b, uint64(c.Needless))
			b = binary.AppendUvarint(b, uint64(c.NeedlessAtMost))
		}
	}
	return b
}

// vector reads a packed vector. It treats negative amounts as damage.
func (d *decoder) vector() Vector {
	var v Vector
	head := d.uint(headEnd - 1)
	unit := quota.Units(1)
	if head&wholeBit != 0 {
		unit = quota.Token
	}
	if head>>extraShift&^(wholeBit>>extraShift)&^head != 0 {
		d.fail(errVector) // extras of a second without counts
	}
	for i := range v {
		if head&(1<<i) == 0 {
			continue
		}
		c := &v[i]
		c.Attempted = quota.Units(d.uint(uint64(math.MaxInt64/unit))) * unit
		c.Admitted = c.Attempted - d.units(math.MaxInt64/unit)*unit // below 0 if that overflows
		if head&(1<<(extraShift+i)) != 0 {
			c.Over, c.Needless = quota.Units(d.uint(math.MaxInt64)), quota.Units(d.uint(math.MaxInt64))
			c.NeedlessAtMost = quota.Units(d.uint(math.MaxInt64))
		}
		if c.Admitted < 0 || *c == (Counts{}) {
			d.fail(errVector)
		}
	}
	return v
}
