package descriptor

import (
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// MaxEntries is the most entries that a descriptor has, and a rule steps.
const MaxEntries = 64

// Entry is one part of a descriptor of a request.
type Entry struct{ Key, Value string }

// Sorted returns what has no order of its own as a descriptor: in the order of the
// keys.
func Sorted(pairs map[string]string) []Entry {
	out := make([]Entry, 0, len(pairs))
	for _, k := range slices.Sorted(maps.Keys(pairs)) {
		out = append(out, Entry{k, pairs[k]})
	}
	return out
}

// Step is one part of the path to a rule.
type Step struct {
	Key   string // never empty
	Value string // empty: any; with a *: a pattern
}

// Pattern reports whether the value has a * in it.
func (s Step) Pattern() bool { return strings.Contains(s.Value, "*") }

// Exact reports whether the step is for one value only, which is then no part of
// what is counted.
func (s Step) Exact() bool { return s.Value != "" && !s.Pattern() }

// String returns key or key=value.
func (s Step) String() string {
	if s.Value == "" {
		return s.Key
	}
	return s.Key + "=" + s.Value
}

// Path returns the steps as text, such as "database=users, remote_address".
func Path(steps []Step) string {
	words := make([]string, len(steps))
	for i, s := range steps {
		words[i] = s.String()
	}
	return strings.Join(words, ", ")
}

// Namespace returns the namespace of a domain: the domain itself, with - for what
// no namespace can have, cut off after quota.MaxNameLen bytes.
func Namespace(domain string) string {
	if quota.CheckName("", domain) == nil {
		return domain
	}
	out := strings.Map(func(r rune) rune {
		if quota.CheckName("", string(r)) != nil {
			return '-'
		}
		return r
	}, domain)
	if out == "" {
		out = "-"
	}
	return out[:min(len(out), quota.MaxNameLen)]
}

// pattern is a value with * in it, cut at every *.
type pattern []string

func newPattern(s string) pattern { return strings.Split(s, "*") }

// literals counts the bytes that the pattern asks for.
func (p pattern) literals() (n int) {
	for _, part := range p {
		n += len(part)
	}
	return n
}

// matches compares the ends first, and then finds what is between them from the
// left: the first place is as good as any later one.
func (p pattern) matches(s string) bool {
	first, last := p[0], p[len(p)-1]
	if len(s) < len(first)+len(last) || !strings.HasPrefix(s, first) || !strings.HasSuffix(s, last) {
		return false
	}
	s = s[len(first) : len(s)-len(last)]
	for _, part := range p[1 : len(p)-1] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return true
}
