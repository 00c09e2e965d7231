package sim

import (
	"math/bits"

	"github.com/quorate/quorate/internal/quota"
)

// What reports and grants take on the wire, by the fields of
// api/proto/quorate/peer/v1: a number is a tag of one byte (two from field 16 on)
// and seven bits a byte, and nothing if it is 0. The frame around them, and TLS,
// are not counted.

func reportSize(r *quota.Report) int64 {
	n := field(r.Range) + field(r.Term) + field(r.Seq) + flag(r.Full) + field(r.Incarnation) + field(r.Age)
	for i := range r.Entries {
		n += nested(reportEntrySize(&r.Entries[i]))
	}
	return n
}

func reportEntrySize(e *quota.ReportEntry) int64 {
	n := keySize(e.Key) + field(e.Epoch) + field(e.Used) + field(e.Overdrawn) + field(e.Refused) + field(e.Held) +
		field(e.AccruedTo) + field(e.Applied) + flag(e.Final) + field(e.Want) + field(e.Unreported) + field(e.Refunded) +
		far(e.InFlight) + far(e.Window) + far(e.Before) + 2*flag(e.Stopped)
	if l := e.Learn; l != nil {
		n += nested(flag(l.Told) + field(l.Level) + field(l.Age) + field(l.Rate) + field(l.LeaseLeft) + field(l.Cap) + field(l.WindowEnd))
	}
	return n
}

func grantSize(g *quota.Grant) int64 {
	n := field(g.Range) + field(g.Term) + field(g.At)
	for i := range g.Entries {
		e := &g.Entries[i]
		n += nested(keySize(e.Key) + field(e.Epoch) + field(e.Seq) + field(e.Ack) + field(e.Tokens) + field(e.Rate) + field(e.Cap) +
			field(e.Lease) + field(e.Level) + field(e.Others) + field(e.Again) + flag(e.Closed) + field(e.Free) +
			far(e.WindowStart) + far(e.WindowEnd) + far(e.Slope) + far(e.Unseen) + 2*flag(e.Recall))
	}
	return n
}

func keySize(k quota.Key) int64 {
	return nested(int64(len(k.Namespace))) + nested(int64(len(k.Limit))) + nested(int64(len(k.Key)))
}

// field is the size of a number in a field below 16.
func field[T ~int64 | ~uint64 | ~uint32 | ~uint16 | ~int](v T) int64 {
	if v == 0 {
		return 0
	}
	return 1 + varint(uint64(v))
}

// far is the size of a number in a field from 16 on.
func far[T ~int64](v T) int64 {
	if v == 0 {
		return 0
	}
	return 2 + varint(uint64(v))
}

func flag(b bool) int64 {
	if b {
		return 2
	}
	return 0
}

// nested is the size of a field with a length.
func nested(n int64) int64 { return 1 + varint(uint64(n)) + n }

func varint(v uint64) int64 { return int64(bits.Len64(v|1)+6) / 7 }
