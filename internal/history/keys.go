package history

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// Bounds of keys.
const (
	// KeysEach is how many keys of a limit a range's leader writes once a minute, KeysAll how
	// many in all.
	KeysEach = 20
	KeysAll  = 256
	// KeysMinutes is for how many minutes they are kept.
	KeysMinutes = 60

	maxKeyLen = 1024
	maxTop    = 4 * KeysAll // keys of a limit and minute, when leaders have changed
)

// TopKeys is what a leader says of the keys of a limit: those of which most was asked since it
// said so last, and the most that any other can have had.
type TopKeys struct {
	Limit quota.LimitName
	Keys  []KeyTotal // by name; of each, Error is 0
	Rest  quota.Units
}

// KeysLine is an entry of a range's log: what was asked of the range's keys in a minute. A key is
// in one range, so lists of ranges have no key in common.
type KeysLine struct {
	Minute Minute
	By     Lister // whose list it is: one that is there twice is the same
	Lists  []TopKeys
}

// Lister names a list: by the leader's term, and when it was made.
type Lister struct {
	Term uint64
	At   quota.Time
}

var errKeys = errors.New("history: damaged keys")

// Append appends the line. DecodeKeysLine is its inverse.
func (l *KeysLine) Append(b []byte) []byte {
	b = binary.AppendUvarint(append(b, lineForm), uint64(l.Minute))
	b = l.By.append(b)
	return appendTop(b, l.Lists)
}

func (l Lister) append(b []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, l.Term), uint64(l.At))
}

func (d *decoder) lister() Lister {
	return Lister{d.uint(1<<64 - 1), quota.Time(d.uint(1<<63 - 1))}
}

func appendTop(b []byte, all []TopKeys) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for i := range all {
		t := &all[i]
		b = appendText(appendText(b, t.Limit.Namespace), t.Limit.Limit)
		b = binary.AppendUvarint(b, uint64(t.Rest))
		b = binary.AppendUvarint(b, uint64(len(t.Keys)))
		for j := range t.Keys {
			k := &t.Keys[j]
			b = appendText(b, k.Key)
			b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(k.Attempted)), uint64(k.Admitted))
		}
	}
	return b
}

// DecodeKeysLine reads a line.
func DecodeKeysLine(b []byte) (KeysLine, error) {
	if len(b) == 0 || b[0] != lineForm {
		return KeysLine{}, fmt.Errorf("%w: of another form", errKeys)
	}
	d := &decoder{b: b[1:]}
	l := KeysLine{Minute: Minute(d.uint(maxBlock)), By: d.lister(), Lists: d.top()}
	if d.err == nil && len(d.b) > 0 {
		d.fail(errKeys)
	}
	return l, d.err
}

func (d *decoder) top() []TopKeys {
	var out []TopKeys
	for range d.uint(maxKeptLimits) {
		t := TopKeys{Limit: quota.LimitName{Namespace: d.text(maxName), Limit: d.text(maxName)}, Rest: quota.Units(d.uint(1<<63 - 1))}
		for range d.uint(maxTop) {
			t.Keys = append(t.Keys, KeyTotal{Key: d.text(maxKeyLen), Attempted: quota.Units(d.uint(1<<63 - 1)), Admitted: quota.Units(d.uint(1<<63 - 1))})
			if d.err != nil {
				return nil
			}
		}
		if d.err != nil {
			return nil
		}
		out = append(out, t)
	}
	return out
}

// KeptKeys is what a replica of a range has of the last hour's keys: what the lines of its log
// say. Replicas that have applied the same lines are equal. One goroutine at a time.
type KeptKeys struct {
	minutes map[Minute]*keysOf
	newest  Minute
}

type keysOf struct {
	by []Lister // whose lines are in it, in their order
	of map[quota.LimitName]*keyTotals
}

type keyTotals struct {
	keys map[string]KeyTotal // Error is that of lines without the key
	rest quota.Units
}

// NewKeptKeys returns the state of a replica that has applied nothing.
func NewKeptKeys() *KeptKeys { return &KeptKeys{minutes: map[Minute]*keysOf{}} }

// Apply adds a line. One that is there already, or too old, changes nothing.
func (k *KeptKeys) Apply(l *KeysLine) {
	if l.Minute <= k.newest-KeysMinutes {
		return
	}
	m := k.minutes[l.Minute]
	if m == nil {
		m = &keysOf{of: map[quota.LimitName]*keyTotals{}}
		k.minutes[l.Minute] = m
	}
	if slices.Contains(m.by, l.By) {
		return
	}
	m.by = append(m.by, l.By)
	for i := range l.Lists {
		m.add(&l.Lists[i])
	}
	k.newest = max(k.newest, l.Minute)
	maps.DeleteFunc(k.minutes, func(at Minute, _ *keysOf) bool { return at <= k.newest-KeysMinutes })
}

func (m *keysOf) add(t *TopKeys) {
	if m.of[t.Limit] == nil {
		m.of[t.Limit] = &keyTotals{keys: map[string]KeyTotal{}}
	}
	m.of[t.Limit].add(t)
}

// add adds what one list says: of a key that is in only one of two, the other one says at most
// its rest.
func (s *keyTotals) add(t *TopKeys) {
	rest := s.rest
	s.rest = s.rest.Plus(t.Rest)
	in := map[string]bool{}
	for _, x := range t.Keys {
		in[x.Key] = true
		was, there := s.keys[x.Key]
		if !there {
			was = KeyTotal{Key: x.Key, Error: rest}
		}
		was.Attempted, was.Admitted = was.Attempted.Plus(x.Attempted), was.Admitted.Plus(x.Admitted)
		was.Error = was.Error.Plus(x.Error)
		s.keys[x.Key] = was
	}
	if t.Rest == 0 {
		return
	}
	for key, was := range s.keys {
		if !in[key] {
			was.Error = was.Error.Plus(t.Rest)
			s.keys[key] = was
		}
	}
}

// Newest returns the newest minute that there is a line of; false if there is none.
func (k *KeptKeys) Newest() (Minute, bool) { return k.newest, len(k.minutes) > 0 }

// Top returns the keys of a limit that were asked for most from from to before end, in the order
// of TopOf.
func (k *KeptKeys) Top(limit quota.LimitName, from, end Minute, most int) TopKeys {
	sum := &keyTotals{keys: map[string]KeyTotal{}}
	for _, at := range slices.Sorted(maps.Keys(k.minutes)) {
		s := k.minutes[at].of[limit]
		if at < from || at >= end || s == nil {
			continue
		}
		sum.add(s.list(limit))
	}
	return TopOf(limit, []TopKeys{*sum.list(limit)}, most)
}

func (s *keyTotals) list(limit quota.LimitName) *TopKeys {
	t := &TopKeys{Limit: limit, Rest: s.rest}
	for _, key := range slices.Sorted(maps.Keys(s.keys)) {
		t.Keys = append(t.Keys, s.keys[key])
	}
	return t
}

// TopOf returns the first keys of lists that have none in common, the one that was asked for most
// first, and the most that any other can have had.
func TopOf(limit quota.LimitName, lists []TopKeys, most int) TopKeys {
	out := TopKeys{Limit: limit}
	for i := range lists {
		out.Keys = append(out.Keys, lists[i].Keys...)
		out.Rest = max(out.Rest, lists[i].Rest)
	}
	slices.SortFunc(out.Keys, func(a, b KeyTotal) int {
		return cmp.Or(cmp.Compare(b.Attempted, a.Attempted), cmp.Compare(a.Key, b.Key))
	})
	if len(out.Keys) > most {
		for _, k := range out.Keys[most:] {
			out.Rest = max(out.Rest, k.Attempted.Plus(k.Error))
		}
		out.Keys = out.Keys[:most]
	}
	return out
}

// Append appends the state, the same bytes on equal replicas. DecodeKeptKeys is its inverse.
func (k *KeptKeys) Append(b []byte) []byte {
	b = binary.AppendUvarint(append(b, keptForm), uint64(k.newest))
	b = binary.AppendUvarint(b, uint64(len(k.minutes)))
	for _, at := range slices.Sorted(maps.Keys(k.minutes)) {
		m := k.minutes[at]
		b = binary.AppendUvarint(b, uint64(at))
		b = binary.AppendUvarint(b, uint64(len(m.by)))
		for _, l := range m.by {
			b = l.append(b)
		}
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

// DecodeKeptKeys reads a state.
func DecodeKeptKeys(b []byte) (*KeptKeys, error) {
	if len(b) == 0 || b[0] != keptForm {
		return nil, fmt.Errorf("%w: of another form", errKeys)
	}
	d, k := &decoder{b: b[1:]}, NewKeptKeys()
	k.newest = Minute(d.uint(maxBlock))
	for range d.uint(KeysMinutes) {
		at, m := Minute(d.uint(maxBlock)), &keysOf{of: map[quota.LimitName]*keyTotals{}}
		for range d.uint(10_000) {
			m.by = append(m.by, d.lister())
			if d.err != nil {
				return nil, d.err
			}
		}
		all := d.top()
		for i := range all {
			s := &keyTotals{keys: map[string]KeyTotal{}, rest: all[i].Rest}
			for _, x := range all[i].Keys {
				x.Error = quota.Units(d.uint(1<<63 - 1))
				s.keys[x.Key] = x
			}
			m.of[all[i].Limit] = s
		}
		k.minutes[at] = m
	}
	if d.err == nil && len(d.b) > 0 {
		d.fail(errKeys)
	}
	return k, d.err
}
