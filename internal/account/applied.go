package account

import (
	"encoding/binary"

	"github.com/quorate/quorate/internal/quota"
)

// applied is a request id that was applied, and its answer. It is never changed.
type applied struct {
	key       string
	hash      Hash
	at        quota.Time
	expires   quota.Time
	elsewhere bool   // another range is home, and has the answer
	results   string // packed
}

// appliedKey names a request of a caller.
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

// Results that were applied are packed as a flag (1: created) and what is new,
// previous, and what was adjusted, the latter two as differences. A success has no
// message.
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
