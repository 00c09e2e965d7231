package history

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// RecentKeys holds a replica's keys of the last hour: what the lines of its range's log say. Replicas that
// have applied the same lines are equal. It is not safe for concurrent use.
type RecentKeys struct {
	minutes map[Minute]*keysOf
	newest  Minute
	last    Lister // identifies the newest list
}

type keysOf struct {
	by   []Lister // identify the lines applied, in their order
	span KeysSpan
	of   map[quota.LimitName]*keyTotals
}

// keyTotals sums lists.
type keyTotals struct {
	keys map[string]KeyTotal // Error is stored minus rest, so that a list adds to the error of all keys that it lacks
	rest quota.Units
}

// NewRecentKeys returns the state of a replica that has applied no line.
func NewRecentKeys() *RecentKeys { return &RecentKeys{minutes: map[Minute]*keysOf{}} }

// Apply applies a line, and reports whether it changed anything. It ignores a line that is already
// present or too old.
func (k *RecentKeys) Apply(l *KeysLine) bool {
	if l.Minute <= k.newest-KeysMinutes {
		return false
	}
	m := k.minutes[l.Minute]
	if m == nil {
		m = &keysOf{of: map[quota.LimitName]*keyTotals{}}
		k.minutes[l.Minute] = m
	}
	if slices.Contains(m.by, l.By) {
		return false
	}
	m.by = append(m.by, l.By)
	k.join(m, l)
	for i := range l.Lists {
		t := &l.Lists[i]
		if m.of[t.Limit] == nil {
			m.of[t.Limit] = &keyTotals{keys: map[string]KeyTotal{}}
		}
		m.of[t.Limit].add(t)
	}
	k.newest = max(k.newest, l.Minute)
	maps.DeleteFunc(k.minutes, func(at Minute, _ *keysOf) bool { return at <= k.newest-KeysMinutes })
	return true
}

// join records the time that the lists of a minute cover, and the gaps. A gap runs from the last list of
// a leader to the beginning of the next leader's: what the first was asked for in between is in no list.
func (k *RecentKeys) join(m *keysOf, l *KeysLine) {
	since := k.last.At
	switch {
	case since == 0:
		since = l.Since
	case l.Since > since:
		m.span.Gaps = Gaps(append(m.span.Gaps, Gap{secondOf(since), secondOf(l.Since-1) + 1}), MaxGaps)
	}
	if len(m.by) == 1 {
		m.span.From = secondOf(since)
	}
	if l.By.At >= k.last.At {
		k.last = l.By
	}
	m.span.Upto = max(m.span.Upto, secondOf(l.By.At))
}

func secondOf(t quota.Time) Second { return Second(floorDiv(int64(t), int64(time.Second))) }

// add adds a list. For a key that only one of two lists contains, the other list bounds its count by its
// rest.
func (s *keyTotals) add(t *TopKeys) {
	for _, x := range t.Keys {
		was := s.keys[x.Key]
		s.keys[x.Key] = KeyTotal{
			Key: x.Key, Attempted: was.Attempted.Plus(x.Attempted), Admitted: was.Admitted.Plus(x.Admitted),
			Error: was.Error.Plus(x.Error - t.Rest),
		}
	}
	s.rest = s.rest.Plus(t.Rest)
}

// totalsOf is the inverse of keyTotals.list.
func totalsOf(t *TopKeys) *keyTotals {
	s := &keyTotals{keys: make(map[string]KeyTotal, len(t.Keys)), rest: t.Rest}
	for _, x := range t.Keys {
		x.Error -= t.Rest
		s.keys[x.Key] = x
	}
	return s
}

// Newest returns the newest minute that has a line; false if none has.
func (k *RecentKeys) Newest() (Minute, bool) { return k.newest, len(k.minutes) > 0 }

// First returns the first minute of which all lines are here, except lines from before the replica
// existed; false if there are no lines.
func (k *RecentKeys) First() (Minute, bool) { return k.newest - KeysMinutes + 1, len(k.minutes) > 0 }

// Minutes returns the minutes that have lines, oldest first.
func (k *RecentKeys) Minutes() []Minute { return slices.Sorted(maps.Keys(k.minutes)) }

// Limits returns the limits in the lines of a minute, in order.
func (k *RecentKeys) Limits(at Minute) []quota.LimitName {
	if m := k.minutes[at]; m != nil {
		return slices.SortedFunc(maps.Keys(m.of), quota.LimitName.Compare)
	}
	return nil
}

// Minute returns what the lines of a minute say about a limit, with the error of each key if several
// leaders listed; false if the minute has no line.
func (k *RecentKeys) Minute(limit quota.LimitName, at Minute) (KeysPart, bool) {
	m := k.minutes[at]
	if m == nil {
		return KeysPart{}, false
	}
	p := KeysPart{Start: at.Start(), Seconds: 60, KeysSpan: m.span}
	if s := m.of[limit]; s != nil {
		p.Top = *s.list(limit)
	}
	return p, true
}

func (s *keyTotals) list(limit quota.LimitName) *TopKeys {
	t := &TopKeys{Limit: limit, Rest: s.rest}
	for _, key := range slices.Sorted(maps.Keys(s.keys)) {
		x := s.keys[key]
		x.Error = max(0, x.Error.Plus(s.rest))
		t.Keys = append(t.Keys, x)
	}
	return t
}

// recentKeysForm begins an encoded state. The earlier form had no spans.
const recentKeysForm = 2

// Append appends the encoded state to b. Equal replicas produce the same bytes. DecodeRecentKeys is its
// inverse.
func (k *RecentKeys) Append(b []byte) []byte {
	b = binary.AppendUvarint(append(b, recentKeysForm), uint64(k.newest))
	b = append(k.last.append(b), unused)
	b = binary.AppendUvarint(b, uint64(len(k.minutes)))
	for _, at := range slices.Sorted(maps.Keys(k.minutes)) {
		m := k.minutes[at]
		b = binary.AppendUvarint(b, uint64(at))
		b = binary.AppendUvarint(b, uint64(len(m.by)))
		for _, l := range m.by {
			b = l.append(b)
		}
		b = m.span.Append(b)
		var all []TopKeys
		for _, limit := range slices.SortedFunc(maps.Keys(m.of), quota.LimitName.Compare) {
			all = append(all, *m.of[limit].list(limit))
		}
		b = appendTop(b, all)
		for i := range all {
			for j := range all[i].Keys {
				b = binary.AppendUvarint(b, uint64(all[i].Keys[j].Error))
			}
		}
	}
	return b
}

// DecodeRecentKeys decodes a state.
func DecodeRecentKeys(b []byte) (*RecentKeys, error) {
	if len(b) == 0 || b[0] == 0 || b[0] > recentKeysForm {
		return nil, fmt.Errorf("%w: of another form", errKeys)
	}
	d, k := &decoder{b: b[1:]}, NewRecentKeys()
	joins := b[0] == recentKeysForm
	if k.newest = Minute(d.uint(maxSlot)); joins {
		k.last, _ = d.lister(), d.uint(1)
	}
	for range d.uint(KeysMinutes) {
		at, m := Minute(d.uint(maxSlot)), &keysOf{of: map[quota.LimitName]*keyTotals{}}
		for range d.uint(10_000) {
			m.by = append(m.by, d.lister())
			if d.err != nil {
				return nil, d.err
			}
		}
		if joins {
			m.span = d.span()
		}
		all := d.top()
		for i := range all {
			for j := range all[i].Keys {
				all[i].Keys[j].Error = quota.Units(d.uint(1<<63 - 1))
			}
			m.of[all[i].Limit] = totalsOf(&all[i])
		}
		k.minutes[at] = m
	}
	if d.err == nil && len(d.b) > 0 {
		d.fail(errKeys)
	}
	return k, d.err
}
