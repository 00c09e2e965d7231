package descriptor

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// NameOf returns the limit name for a path, as described in the package comment. It returns an
// error if the name would be too long or a key is empty.
func NameOf(steps []Step) (string, error) {
	if len(steps) == 0 || len(steps) > MaxEntries {
		return "", fmt.Errorf("a name is of 1 to %d entries, not of %d", MaxEntries, len(steps))
	}
	var b strings.Builder
	for i, s := range steps {
		if i > 0 {
			b.WriteByte('.')
		}
		if s.Key == "" {
			return "", fmt.Errorf("entry %d has an empty key", i)
		}
		writeText(&b, s.Key, false)
		if s.Value != "" {
			b.WriteString("--")
			writeText(&b, s.Value, true)
		}
	}
	if b.Len() > quota.MaxNameLen {
		return "", fmt.Errorf("the name %s has %d bytes; at most %d", b.String(), b.Len(), quota.MaxNameLen)
	}
	return b.String(), nil
}

// writeText encodes a key or a value. With stars, * is a wildcard.
func writeText(b *strings.Builder, s string, stars bool) {
	for i := range len(s) {
		switch c := s[i]; {
		case plain(c), c == '-' && lone(s, i):
			b.WriteByte(c)
		case c == '.' && i > 0:
			b.WriteString("..")
		case c == '*' && stars:
			b.WriteString("--")
		default:
			fmt.Fprintf(b, "-.%02x", c)
		}
	}
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// lone reports whether the - at s[i] is between two plain bytes, so that it is unambiguous.
func lone(s string, i int) bool {
	return i > 0 && i+1 < len(s) && plain(s[i-1]) && plain(s[i+1])
}

// Steps returns the path that the name encodes, or false if it encodes none.
func Steps(name string) ([]Step, bool) {
	var steps []Step
	for rest := name; ; {
		var s Step
		s.Key, rest = readText(rest, false)
		if strings.HasPrefix(rest, "--") {
			s.Value, rest = readText(rest[2:], true)
		}
		steps = append(steps, s)
		if rest == "" {
			break
		}
		rest = rest[1:] // the dot
	}
	// Only the canonical name counts, so that a path has one name.
	if again, err := NameOf(steps); err != nil || again != name {
		return nil, false
	}
	return steps, true
}

// readText decodes a value up to the next single dot, or a key up to that or "--".
func readText(s string, value bool) (text, rest string) {
	var b strings.Builder
	for s != "" {
		switch {
		case strings.HasPrefix(s, ".."):
			b.WriteByte('.')
			s = s[2:]
		case s[0] == '.':
			return b.String(), s
		case strings.HasPrefix(s, "--"):
			if !value {
				return b.String(), s
			}
			b.WriteByte('*')
			s = s[2:]
		case strings.HasPrefix(s, "-.") && len(s) >= 4:
			b.WriteByte(unhex(s[2])<<4 | unhex(s[3]))
			s = s[4:]
		default:
			b.WriteByte(s[0])
			s = s[1:]
		}
	}
	return b.String(), ""
}

// unhex decodes a lower-case hex digit. Other bytes give an arbitrary result, which NameOf would
// encode differently.
func unhex(c byte) byte {
	if c >= 'a' {
		return (c - 'a' + 10) & 15
	}
	return (c - '0') & 15
}
