package descriptor

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

var (
	escapePart = strings.NewReplacer("%", "%25", "/", "%2F")
	escapePair = strings.NewReplacer("%", "%25", "/", "%2F", "=", "%3D")
)

// Key returns the key under which a descriptor is counted by its rule: the values of the steps
// without an exact value. Without such steps it is quota.WholeKey. A single value is the key
// itself, preceded by % if it is empty or begins with %. Several values are joined by "/", with %
// encoded as %25 and / as %2F. For a shared step the pattern takes the place of the value.
func (r *Rule) Key(entries []Entry) string {
	var room [8]string
	parts := room[:0]
	for i := range r.Steps {
		if !r.Steps[i].Exact() {
			parts = append(parts, r.value(entries, i))
		}
	}
	switch len(parts) {
	case 0:
		return quota.WholeKey
	case 1:
		if one := parts[0]; one != "" && one[0] != '%' {
			return bounded(one)
		}
		return bounded("%" + parts[0])
	}
	for i, p := range parts {
		parts[i] = escapePart.Replace(p)
	}
	return bounded(strings.Join(parts, "/"))
}

// FullKey returns key=value of every entry, joined by "/", with %, / and = encoded as %25, %2F and
// %3D. It is unique for each descriptor.
func FullKey(entries []Entry) string { return fullKey(entries, nil) }

// FullKey is the function FullKey with patterns in place of the values of shared steps.
func (r *Rule) FullKey(entries []Entry) string { return fullKey(entries, r) }

func fullKey(entries []Entry, r *Rule) string {
	var b strings.Builder
	for i, e := range entries {
		if i > 0 {
			b.WriteByte('/')
		}
		if r != nil {
			e.Value = r.value(entries, i)
		}
		b.WriteString(escapePair.Replace(e.Key))
		b.WriteByte('=')
		b.WriteString(escapePair.Replace(e.Value))
	}
	return bounded(b.String())
}

// value returns the text that represents an entry in a key.
func (r *Rule) value(entries []Entry, i int) string {
	if i < len(r.Share) && r.Share[i] {
		return r.Steps[i].Value
	}
	return entries[i].Value
}

// bounded replaces the end of a key that is too long by %# and a hash of the whole key.
func bounded(key string) string {
	if len(key) <= quota.MaxKeyLen {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	end := "%#" + hex.EncodeToString(sum[:])
	return strings.ToValidUTF8(key[:quota.MaxKeyLen-len(end)], "") + end
}
