package account

import (
	"encoding/binary"

	"github.com/quorate/quorate/internal/quota"
)

// applied records a request id that the store applied, with its results. It is immutable.
type applied struct {
	key       string
	hash      Hash
	at        quota.Time
	expires   quota.Time
	elsewhere bool   // another range is home and keeps the results
	results   string // packed
}

// size returns the bytes of memory that the request takes, about.
func (a *applied) size() int {
	const fixed = 160 // this struct, and its places in two trees
	return fixed + len(a.key) + len(a.results)
}

// appliedKey returns the key of a caller's request.
func appliedKey(by, id string) string {
	b := make([]byte, 0, len(by)+len(id)+2)
	b = appendStrings(b, by)
	return string(append(b, id...))
}

// splitAppliedKey is the inverse of appliedKey.
func splitAppliedKey(key string) (by, id string, ok bool) {
	r := unpacker{rest: key}
	by = r.string()
	return by, r.rest, !r.bad
}

// packResults encodes results. Each is a flag byte (1: created) and three varints: New, then
// Previous and Adjusted as differences from the value before. Applied results are successes, so
// they carry no message.
func packResults(list []Result) string {
	b := make([]byte, 0, 8*len(list))
	for i := range list {
		r := &list[i]
		flag := byte(0)
		if r.Created {
			flag = 1
		}
		b = binary.AppendVarint(append(b, flag), r.New)
		b = binary.AppendVarint(b, r.Previous-r.New)
		b = binary.AppendVarint(b, r.Adjusted-r.Previous)
	}
	return string(b)
}

func unpackResults(packed string) ([]Result, bool) {
	r := unpacker{rest: packed}
	list := make([]Result, 0, len(packed)/4)
	for r.rest != "" && !r.bad {
		res := Result{Created: r.byte() == 1, New: r.varint()}
		res.Previous = res.New + r.varint()
		res.Adjusted = res.Previous + r.varint()
		list = append(list, res)
	}
	return list, !r.bad
}
