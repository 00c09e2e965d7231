package history

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// RecentKeys is what a replica of a range holds of the last hour's keys: what the lines of its log
// say. Replicas that have applied the same lines are equal. One goroutine at a time.
type RecentKeys struct {
	minutes map[Minute]*keysOf
	newest  Minute
	last    Lister // of the newest list
	ended   bool   // and there was nothing to list after it in its term
}

type keysOf struct {
	by   []Lister // whose lines are in it, in their order
	span KeysSpan
	of   map[quota.LimitName]*keyTotals
}

// keyTotals adds up lists.
type keyTotals struct {
	keys map[string]KeyTotal // Error is less by rest: so a list adds to that of all the keys that it does not have
	rest quota.Units
}

// NewRecentKeys returns the state of a replica that has applied nothing.
func NewRecentKeys() *RecentKeys { return &RecentKeys{minutes: map[Minute]*keysOf{}} }

// Apply adds a line, and reports whether it changed something. One that is there already, or
// too old, does not.
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
		m.add(&l.Lists[i])
	}
	k.newest = max(k.newest, l.Minute)
	maps.DeleteFunc(k.minutes, func(at Minute, _ *keysOf) bool { return at <= k.newest-KeysMinutes })
	return true
}

// join notes what the lists of a minute cover, and what none does: from the last one of a leader that
// did not end in order, to the beginning of the next. Of a term between two there may have been
// a leader that did not list at all.
func (k *RecentKeys) join(m *keysOf, l *KeysLine) {
	since, ended := k.last.At, k.ended && l.By.Term <= k.last.Term+1
	switch {
	case since == 0:
		since = l.Since
	case !ended && l.Since > since:
		m.span.Gaps = Gaps(append(m.span.Gaps, Gap{secondOf(since), secondOf(l.Since-1) + 1}), MaxGaps)
	}
	if len(m.by) == 1 {
		m.span.From = secondOf(since)
	}
	if l.By.At >= k.last.At {
		k.last, k.ended = l.By, l.Ends
	}
	m.span.Upto = max(m.span.Upto, secondOf(l.By.At))
}

func secondOf(t quota.Time) Second { return Second(floorDiv(int64(t), int64(time.Second))) }

func (m *keysOf) add(t *TopKeys) {
	if m.of[t.Limit] == nil {
		m.of[t.Limit] = &keyTotals{keys: map[string]KeyTotal{}}
	}
	m.of[t.Limit].add(t)
}

// add adds what one list says: of a key that is in only one of two, the other one says at most
// its rest.
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

// Newest returns the newest minute that there is a line of; false if there is none.
func (k *RecentKeys) Newest() (Minute, bool) { return k.newest, len(k.minutes) > 0 }

// First returns the first minute whose lines are all here, unless they were made before there was
// a replica; false if there is none.
func (k *RecentKeys) First() (Minute, bool) { return k.newest - KeysMinutes + 1, len(k.minutes) > 0 }

// Minutes returns the minutes that there are lines of, the oldest first.
func (k *RecentKeys) Minutes() []Minute { return slices.Sorted(maps.Keys(k.minutes)) }

// Limits returns the limits that the lines of a minute have, in order.
func (k *RecentKeys) Limits(at Minute) []quota.LimitName {
	if m := k.minutes[at]; m != nil {
		return slices.SortedFunc(maps.Keys(m.of), compareLimits)
	}
	return nil
}

// Minute returns what the lines of a minute say of a limit, with the error of each key where several
// leaders listed; false if there is no line of the minute.
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

// recentKeysForm begins an encoded state. The one before did not say what there is no list of.
const recentKeysForm = 2

// Append appends the state, the same bytes on equal replicas. DecodeRecentKeys is its inverse.
func (k *RecentKeys) Append(b []byte) []byte {
	b = binary.AppendUvarint(append(b, recentKeysForm), uint64(k.newest))
	b = appendBool(k.last.append(b), k.ended)
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
		for _, limit := range slices.SortedFunc(maps.Keys(m.of), compareLimits) {
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

// DecodeRecentKeys reads a state.
func DecodeRecentKeys(b []byte) (*RecentKeys, error) {
	if len(b) == 0 || b[0] == 0 || b[0] > recentKeysForm {
		return nil, fmt.Errorf("%w: of another form", errKeys)
	}
	d, k := &decoder{b: b[1:]}, NewRecentKeys()
	joins := b[0] == recentKeysForm
	if k.newest = Minute(d.uint(maxSlot)); joins {
		k.last, k.ended = d.lister(), d.bool()
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
