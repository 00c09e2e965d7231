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

// Key returns the key that a descriptor is counted by under its rule: the values of
// the steps that have no exact one. No such step is quota.WholeKey. One is its value
// as it is, but with a % before it if it is empty or begins with %. Several are
// joined by "/", with % as %25 and / as %2F in each. Of a step that is shared, the
// pattern stands for the value.
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

// FullKey returns key=value of every entry, joined by "/", with %, / and = written
// as %25, %2F and %3D: what tells a descriptor from all others.
func FullKey(entries []Entry) string { return fullKey(entries, nil) }

// FullKey is the function of that name, with patterns for the values of shared steps.
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

// value is what counts of an entry.
func (r *Rule) value(entries []Entry, i int) string {
	if i < len(r.Share) && r.Share[i] {
		return r.Steps[i].Value
	}
	return entries[i].Value
}

// bounded returns a key that is not too long: if it would be, its end is %# and a
// hash of the whole.
func bounded(key string) string {
	if len(key) <= quota.MaxKeyLen {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	end := "%#" + hex.EncodeToString(sum[:])
	return strings.ToValidUTF8(key[:quota.MaxKeyLen-len(end)], "") + end
}
