package history

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// Bounds on keys.
const (
	// KeysEach is how many keys of a limit a range's leader writes once a minute; KeysAll is how many
	// it writes in total.
	KeysEach = 20
	KeysAll  = 256
	// KeysMinutes is how many minutes of keys replicas keep in memory and in snapshots.
	KeysMinutes = 60
	// KeysHour is how many keys of a limit are kept for an hour.
	KeysHour = 100

	maxKeyLen = 1024
	maxTop    = 4 * KeysAll // keys of a limit and minute, after leader changes
)

// TopKeys holds what is known about the keys of a limit during some time: the most requested ones, and an
// upper bound for every other key.
type TopKeys struct {
	Limit quota.LimitName
	Keys  []KeyTotal // without duplicates; a leader's list has no Error
	Rest  quota.Units
}

// KeysLine is an entry of a range's log: how much of the range's keys was requested in a minute. A key
// belongs to one range, so the lists of different ranges share no key. The lists of one term follow on
// from each other: each covers the time since the one before it.
type KeysLine struct {
	Minute Minute
	By     Lister     // identifies the list; a list with the same Lister is a repetition
	Since  quota.Time // the list covers requests from then on
	Lists  []TopKeys  // empty if nothing was requested
}

// Lister identifies a list by the leader's term and the time when it was made.
type Lister struct {
	Term uint64
	At   quota.Time
}

var errKeys = errors.New("history: damaged keys")

// keysForm begins an encoded line of keys. The earlier form had neither Since nor Ends.
const keysForm = 2

// Append appends the encoded line to b. DecodeKeysLine is its inverse.
func (l *KeysLine) Append(b []byte) []byte {
	b = binary.AppendUvarint(append(b, keysForm), uint64(l.Minute))
	b = l.By.append(b)
	b = append(binary.AppendUvarint(b, uint64(l.Since)), unused)
	return appendTop(b, l.Lists)
}

// unused is written where earlier versions had a flag.
const unused = 0

func (d *decoder) time() quota.Time { return quota.Time(d.uint(1<<63 - 1)) }

func (l Lister) append(b []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, l.Term), uint64(l.At))
}

func (d *decoder) lister() Lister {
	return Lister{d.uint(1<<64 - 1), d.time()}
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

// DecodeKeysLine decodes a line of keys.
func DecodeKeysLine(b []byte) (KeysLine, error) {
	if len(b) == 0 || b[0] == 0 || b[0] > keysForm {
		return KeysLine{}, fmt.Errorf("%w: of another form", errKeys)
	}
	d := &decoder{b: b[1:]}
	l := KeysLine{Minute: Minute(d.uint(maxSlot)), By: d.lister()}
	if b[0] == keysForm {
		l.Since, _ = d.time(), d.uint(1)
	}
	l.Lists = d.top()
	if d.err == nil && len(d.b) > 0 {
		d.fail(errKeys)
	}
	return l, d.err
}

func (d *decoder) top() []TopKeys {
	var out []TopKeys
	for range d.uint(maxRecentLimits) {
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

// TopOf returns the most requested keys of lists that share no key, in descending order, with an upper
// bound for every other key.
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
