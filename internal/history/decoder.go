package history

import (
	"encoding/binary"
	"errors"

	"github.com/quorate/quorate/internal/quota"
)

var errShort = errors.New("history: cut off")

// decoder decodes packed values. After an error it returns zeros.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.b = nil
}

// uint reads a number from 0 to most.
func (d *decoder) uint(most uint64) uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 || n > most {
		d.fail(errShort)
		return 0
	}
	d.b = d.b[size:]
	return n
}

// units reads an amount from -most to most.
func (d *decoder) units(most quota.Units) quota.Units {
	n, size := binary.Varint(d.b)
	if size <= 0 || n > int64(most) || n < -int64(most) {
		d.fail(errShort)
		return 0
	}
	d.b = d.b[size:]
	return quota.Units(n)
}

// text reads a string of at most most bytes.
func (d *decoder) text(most int) string {
	n := int(d.uint(uint64(most)))
	if n > len(d.b) {
		d.fail(errShort)
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
