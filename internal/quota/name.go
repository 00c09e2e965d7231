package quota

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of names, checked wherever a name enters.
const (
	MaxNameLen = 128  // bytes of a namespace or limit name
	MaxKeyLen  = 1024 // bytes of a key
	MaxLimits  = 100_000
)

// LimitName names a limit: a rule in a namespace.
type LimitName struct{ Namespace, Limit string }

// String returns namespace/limit.
func (n LimitName) String() string { return n.Namespace + "/" + n.Limit }

// Compare orders names by namespace, then by limit.
func (n LimitName) Compare(o LimitName) int {
	return cmp.Or(strings.Compare(n.Namespace, o.Namespace), strings.Compare(n.Limit, o.Limit))
}

// ParseLimitName reads "namespace/limit".
func ParseLimitName(s string) (LimitName, error) {
	ns, limit, ok := strings.Cut(s, "/")
	n := LimitName{ns, limit}
	if !ok {
		return n, fmt.Errorf("limit %q: write it as namespace/limit", s)
	}
	if err := CheckName("namespace", ns); err != nil {
		return n, err
	}
	return n, CheckName("limit", limit)
}

// AccountNamespace is the namespace under which the history records the use of accounts, by policy.
// No limit can be in it.
const AccountNamespace = "@accounts"

// ParseRecorded parses any name that the history records: a limit as ParseLimitName does, or an
// account policy, written @accounts/app~realm~namespace~name~type.
func ParseRecorded(s string) (LimitName, error) {
	ns, limit, ok := strings.Cut(s, "/")
	if !ok || ns != AccountNamespace {
		return ParseLimitName(s)
	}
	n := LimitName{ns, limit}
	return n, CheckRecorded(n)
}

// CheckRecorded returns an error that names the field unless the history can record the name.
func CheckRecorded(n LimitName) error {
	if n.Namespace != AccountNamespace {
		if err := CheckName("namespace", n.Namespace); err != nil {
			return err
		}
		return CheckName("limit", n.Limit)
	}
	if len(n.Limit) > MaxNameLen || !strings.Contains(n.Limit, "~") || !utf8.ValidString(n.Limit) {
		return fmt.Errorf("limit: %q is not an account policy; must be app~realm~namespace~name~type, at most %d bytes", n.Limit, MaxNameLen)
	}
	return nil
}

// CheckName returns an error that names the field unless s is 1 to MaxNameLen
// bytes of letters, digits, and . _ - only.
func CheckName(field, s string) error {
	if s == "" {
		return fmt.Errorf("%s: is empty; must be 1 to %d of a-z A-Z 0-9 . _ -", field, MaxNameLen)
	}
	if len(s) > MaxNameLen {
		return fmt.Errorf("%s: is %d bytes; at most %d", field, len(s), MaxNameLen)
	}
	for i, c := range s {
		if !nameChar(c) {
			return fmt.Errorf("%s: %q has %q at byte %d; only a-z A-Z 0-9 . _ - are allowed", field, s, c, i)
		}
	}
	return nil
}

func nameChar(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}

// Key identifies one bucket: a limit, and the key for which it counts.
type Key struct {
	LimitName
	Key string
}

// String returns namespace/limit/key.
func (k Key) String() string { return k.LimitName.String() + "/" + k.Key }

// Compare orders keys by namespace, limit, key.
func (k Key) Compare(o Key) int {
	return cmp.Or(strings.Compare(k.Namespace, o.Namespace), strings.Compare(k.Limit, o.Limit), strings.Compare(k.Key, o.Key))
}

// Ceiling is the direction in which a limit errs when nodes do not know everything about each other.
type Ceiling uint8

const (
	// Soft never refuses a cost that, as far as the node knows, the cluster could have served. Overshoot is bounded,
	// measured and paid back as debt. The default.
	Soft Ceiling = iota
	// Hard never admits more than the limit, whatever fails.
	Hard
)

// String returns the word used in limit files.
func (c Ceiling) String() string {
	if c == Hard {
		return "hard"
	}
	return "soft"
}

// ParseCeiling reads "soft" or "hard".
func ParseCeiling(s string) (Ceiling, error) {
	switch s {
	case "soft":
		return Soft, nil
	case "hard":
		return Hard, nil
	}
	return Soft, fmt.Errorf("ceiling %q: must be soft or hard", s)
}
