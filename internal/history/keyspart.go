package history

import (
	"encoding/binary"

	"github.com/quorate/quorate/internal/quota"
)

// KeysPart is what a range knows of the keys of a limit in a minute or an hour.
type KeysPart struct {
	Start   Second
	Seconds Second
	KeysSpan
	Top TopKeys // nothing, if nothing was asked
}

// KeysSpan is what the lists of a range in a minute or an hour are of: leaders list a little after a
// minute is over, or later.
type KeysSpan struct {
	From Second // when the list before was made, or, if there is none, since when the first one is
	Upto Second // when the last one was made
	Gaps []Gap  // of which there is no list, in order, at most MaxGaps
}

// KeysSum adds up parts that follow each other. Of a key that is in some of them the others say
// at most their rest: that becomes its error, as in merged summaries of heavy hitters.
type KeysSum struct {
	totals keyTotals
	span   KeysSpan
	peak   KeyPeak
}

// KeyPeak is the most that one key was asked for in a part: in a minute, or in an hour where that is
// all that is kept. Keys below the lists count for nothing.
type KeyPeak struct {
	Key       string
	Attempted quota.Units
	Seconds   Second // of which the list is: more than a minute, if the leader listed late
}

// Above reports whether it is more a second than another.
func (p *KeyPeak) Above(o *KeyPeak) bool {
	return p.Seconds > 0 && (o.Seconds == 0 || float64(p.Attempted)*float64(o.Seconds) > float64(o.Attempted)*float64(p.Seconds))
}

// KeysSummed is how many keys, at least, are distinguished in a sum; of the others, those that were asked
// for least so far, nothing is kept but the bound.
const KeysSummed = 10 * maxTop

// Add adds a part. Parts come in the order of time; one that does not join the one before leaves
// a gap.
func (s *KeysSum) Add(p *KeysPart) {
	if s.totals.keys == nil {
		s.totals.keys, s.span.From = map[string]KeyTotal{}, p.From
	}
	s.totals.add(&p.Top)
	for i := range p.Top.Keys {
		k := &p.Top.Keys[i]
		if one := (KeyPeak{k.Key, k.Attempted, max(p.Seconds, p.Upto-p.From)}); one.Above(&s.peak) {
			s.peak = one
		}
	}
	if len(s.totals.keys) > 2*KeysSummed {
		few := s.Top(p.Top.Limit, KeysSummed)
		s.totals = *totalsOf(&few)
	}
	s.span.Gaps = append(s.span.Gaps, p.Gaps...)
	if s.span.Upto > 0 {
		s.span.Gaps = append(s.span.Gaps, Gap{s.span.Upto, p.From})
	}
	if len(s.span.Gaps) > 4*MaxGaps {
		s.span.Gaps = Gaps(s.span.Gaps, MaxGaps)
	}
	s.span.Upto = max(s.span.Upto, p.Upto)
}

// Span returns what lists there are of.
func (s *KeysSum) Span() KeysSpan {
	s.span.Gaps = Gaps(s.span.Gaps, MaxGaps)
	return s.span
}

// Peak returns the key that was asked for most in one part, per second; nothing if there is none.
func (s *KeysSum) Peak() KeyPeak { return s.peak }

// Top returns the most keys that were asked for most, in the order of TopOf.
func (s *KeysSum) Top(limit quota.LimitName, most int) TopKeys {
	return TopOf(limit, []TopKeys{*s.totals.list(limit)}, most)
}

// AppendStored appends what is stored of the keys of a limit, but for its name. DecodeStored is its
// inverse.
func (t *TopKeys) AppendStored(b []byte) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(t.Rest)), uint64(len(t.Keys)))
	for i := range t.Keys {
		k := &t.Keys[i]
		b = appendText(b, k.Key)
		for _, u := range []quota.Units{k.Attempted, k.Admitted, k.Error} {
			b = binary.AppendUvarint(b, uint64(u))
		}
	}
	return b
}

// DecodeStored reads what AppendStored wrote.
func DecodeStored(limit quota.LimitName, b []byte) (TopKeys, error) {
	d := &decoder{b: b}
	units := func() quota.Units { return quota.Units(d.uint(1<<63 - 1)) }
	t := TopKeys{Limit: limit, Rest: units()}
	for range d.uint(maxTop) {
		t.Keys = append(t.Keys, KeyTotal{Key: d.text(maxKeyLen), Attempted: units(), Admitted: units(), Error: units()})
		if d.err != nil {
			return TopKeys{}, d.err
		}
	}
	if d.err == nil && len(d.b) > 0 {
		d.fail(errKeys)
	}
	return t, d.err
}

// Append appends the span. DecodeSpan is its inverse.
func (s *KeysSpan) Append(b []byte) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(s.From)), uint64(s.Upto))
	return appendGaps(b, s.Gaps)
}

func (d *decoder) span() KeysSpan {
	return KeysSpan{From: Second(d.uint(maxSecond)), Upto: Second(d.uint(maxSecond)), Gaps: d.gaps()}
}

// DecodeSpan reads a span, and fails if something else follows.
func DecodeSpan(b []byte) (KeysSpan, error) {
	d := &decoder{b: b}
	out := d.span()
	if d.err == nil && len(d.b) > 0 {
		d.fail(errKeys)
	}
	return out, d.err
}
