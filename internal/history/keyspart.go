package history

import (
	"encoding/binary"

	"github.com/quorate/quorate/internal/quota"
)

// KeysPart holds what a range knows about the keys of a limit in a minute or an hour.
type KeysPart struct {
	Start   Second
	Seconds Second
	KeysSpan
	Top TopKeys // empty if nothing was requested
}

// KeysSpan says which time the lists of a range in a minute or an hour cover. Leaders list a little after
// a minute has ended, or later.
type KeysSpan struct {
	From Second // when the list before was made, or without one, when the time of the first list begins
	Upto Second // when the last list was made
	Gaps []Gap  // time that no list covers, in order, at most MaxGaps
}

// KeysSum sums consecutive parts. For a key that only some of them list, the other parts bound its count
// by their rest. That becomes its error, as in merged summaries of heavy hitters.
type KeysSum struct {
	totals keyTotals
	span   KeysSpan
	peak   KeyPeak
}

// KeyPeak is the highest count of one key in a part: in a minute, or in an hour where only hours are kept.
// Keys that no list contains are ignored.
type KeyPeak struct {
	Key       string
	Attempted quota.Units
	Seconds   Second // length of the list: more than a minute if the leader listed late
}

// Above reports whether p is more per second than o.
func (p *KeyPeak) Above(o *KeyPeak) bool {
	return p.Seconds > 0 && (o.Seconds == 0 || float64(p.Attempted)*float64(o.Seconds) > float64(o.Attempted)*float64(p.Seconds))
}

// KeysSummed is how many keys, at least, a sum distinguishes. Of the least requested others it keeps only
// the bound.
const KeysSummed = 10 * maxTop

// Add adds a part. Parts must be added in order of time. A part that does not join the one before it
// leaves a gap.
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

// Span returns the time that the lists of the sum cover.
func (s *KeysSum) Span() KeysSpan {
	s.span.Gaps = Gaps(s.span.Gaps, MaxGaps)
	return s.span
}

// Peak returns the key with the most requests per second in one part, or a zero KeyPeak.
func (s *KeysSum) Peak() KeyPeak { return s.peak }

// Top returns the most requested keys, at most most of them, in the order of TopOf.
func (s *KeysSum) Top(limit quota.LimitName, most int) TopKeys {
	return TopOf(limit, []TopKeys{*s.totals.list(limit)}, most)
}

// AppendStored appends the stored form of the keys of a limit, without the limit's name. DecodeStored is
// its inverse.
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

// DecodeStored decodes the output of AppendStored.
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

// Append appends the encoded span to b. DecodeSpan is its inverse.
func (s *KeysSpan) Append(b []byte) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(s.From)), uint64(s.Upto))
	return appendGaps(b, s.Gaps)
}

func (d *decoder) span() KeysSpan {
	return KeysSpan{From: Second(d.uint(maxSecond)), Upto: Second(d.uint(maxSecond)), Gaps: d.gaps()}
}

// DecodeSpan decodes a span. It fails if anything follows.
func DecodeSpan(b []byte) (KeysSpan, error) {
	d := &decoder{b: b}
	out := d.span()
	if d.err == nil && len(d.b) > 0 {
		d.fail(errKeys)
	}
	return out, d.err
}
