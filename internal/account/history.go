package account

import (
	"encoding/binary"

	"github.com/quorate/quorate/internal/quota"
)

// A history is packed into one string, oldest change first, because a million accounts have one
// each:
//
//	flags     byte     which fields follow
//	at        varint   nanoseconds since the previous change
//	by        string   with hasBy; otherwise as in the previous change
//	request   string   with hasRequest
//	previous  varint   balance before the change
//	new       varint   difference to the new balance
//	policy    6 strings, with hasPolicy: config's app, realm, version, key's namespace, name, resource
//
// Each string has a length prefix.
const (
	hasBy byte = 1 << iota
	hasRequest
	hasPolicy
	hasCurrent // the change set the policy that the account has now
)

// CreatedBy reports whether the change at index i of the n changes that are kept of an account, newest first,
// created the account: the oldest one did, unless older ones were dropped. previous is the balance before it.
func CreatedBy(i, n int, previous int64) bool {
	return i == n-1 && n < MaxHistory && previous == 0
}

// addChange appends a change to a packed history and drops the oldest beyond MaxHistory. before and
// after are the account's policies before and after the change.
func addChange(packed string, before, after *policy, c Change) string {
	var room [MaxHistory + 1]Change
	list, _ := unpackHistory(room[:0], packed, before)
	list = append(list, c)
	if len(list) > MaxHistory {
		list = list[len(list)-MaxHistory:]
	}
	return packHistory(list, after)
}

func packHistory(list []Change, current *policy) string {
	b := make([]byte, 0, 64*len(list))
	var at quota.Time
	by := ""
	for i := range list {
		b = packChange(b, &list[i], current, at, by)
		at, by = list[i].At, list[i].By
	}
	return string(b)
}

func packChange(b []byte, c *Change, current *policy, at quota.Time, by string) []byte {
	start := len(b)
	b = binary.AppendVarint(append(b, 0), int64(c.At-at))
	flags := byte(0)
	if c.By != by {
		flags |= hasBy
		b = appendStrings(b, c.By)
	}
	if c.RequestID != "" {
		flags |= hasRequest
		b = appendStrings(b, c.RequestID)
	}
	b = binary.AppendVarint(b, c.Previous)
	b = binary.AppendVarint(b, c.New-c.Previous)
	switch {
	case c.Policy == nil:
	case current != nil && *c.Policy == current.Ref:
		flags |= hasCurrent
	default:
		flags |= hasPolicy
		k, g := c.Policy.Key, c.Policy.Config
		b = appendStrings(b, g.App, g.Realm, g.Version, k.Namespace, k.Name, k.Resource)
	}
	b[start] = flags
	return b
}

// unpackHistory appends the changes to list, oldest first, and reports whether the history is
// sound. Of an unsound history it returns the changes before the fault.
func unpackHistory(list []Change, packed string, current *policy) ([]Change, bool) {
	r := unpacker{rest: packed}
	var last Change
	for r.rest != "" && !r.bad {
		c := unpackChange(&r, current, last)
		if r.bad {
			break
		}
		list = append(list, c)
		last = c
	}
	return list, !r.bad
}

func unpackChange(r *unpacker, current *policy, last Change) Change {
	flags := r.byte()
	c := Change{At: last.At + quota.Time(r.varint()), By: last.By}
	if flags&hasBy != 0 {
		c.By = r.string()
	}
	if flags&hasRequest != 0 {
		c.RequestID = r.string()
	}
	c.Previous = r.varint()
	c.New = c.Previous + r.varint()
	switch {
	case flags&hasCurrent != 0 && current != nil:
		c.Policy = &current.Ref
	case flags&hasPolicy != 0:
		c.Policy = &PolicyRef{
			Config: ConfigID{App: r.string(), Realm: r.string(), Version: r.string()},
			Key:    PolicyKey{Namespace: r.string(), Name: r.string(), Resource: r.string()},
		}
	}
	return c
}

// unpacker reads what append wrote, without copying strings. Once bad is set, the values that it
// returned are meaningless.
type unpacker struct {
	rest string
	bad  bool
}

func (r *unpacker) byte() byte {
	if r.rest == "" {
		r.bad = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *unpacker) uvarint() uint64 {
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		b := r.byte()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	r.bad = true
	return 0
}

// varint reverses the zigzag encoding of [binary.AppendVarint].
func (r *unpacker) varint() int64 {
	u := r.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

func (r *unpacker) string() string {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.bad = true
		return ""
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}
