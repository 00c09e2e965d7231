package history

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Gap is a time range, from From until before End.
type Gap struct{ From, End Second }

// MaxGaps bounds the gaps of a time range. Beyond it, the gaps nearest to each other are merged.
const MaxGaps = 60

// Gaps returns the gaps in order, with overlapping and touching ones merged. If more than most remain, it
// also merges those nearest to each other, including the time between them. It may modify all.
func Gaps(all []Gap, most int) []Gap {
	slices.SortFunc(all, func(a, b Gap) int { return cmp.Compare(a.From, b.From) })
	out := all[:0]
	for _, g := range all {
		switch last := len(out) - 1; {
		case g.End <= g.From:
		case last >= 0 && g.From <= out[last].End:
			out[last].End = max(out[last].End, g.End)
		default:
			out = append(out, g)
		}
	}
	for len(out) > max(most, 1) {
		near := 1
		for i := range out[1:] {
			if out[i+1].From-out[i].End < out[near].From-out[near-1].End {
				near = i + 1
			}
		}
		out[near-1].End = out[near].End
		out = slices.Delete(out, near, near+1)
	}
	return out
}

// GapSeconds returns the total length of gaps that do not overlap.
func GapSeconds(all []Gap) (sum Second) {
	for _, g := range all {
		sum += g.End - g.From
	}
	return sum
}

func appendGaps(b []byte, all []Gap) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, g := range all {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(g.From)), uint64(g.End-g.From))
	}
	return b
}

const maxSecond = maxSlot * SlotSeconds

func (d *decoder) gaps() (out []Gap) {
	for range d.uint(MaxGaps) {
		g := Gap{From: Second(d.uint(maxSecond))}
		g.End = g.From + Second(d.uint(maxSecond))
		if d.err != nil {
			return nil
		}
		out = append(out, g)
	}
	return out
}
