package descriptor

import (
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// MaxEntries bounds the entries of a descriptor and the steps of a rule.
const MaxEntries = 64

// Entry is one element of a request's descriptor.
type Entry struct{ Key, Value string }

// Sorted returns an unordered map as a descriptor, sorted by key.
func Sorted(pairs map[string]string) []Entry {
	out := make([]Entry, 0, len(pairs))
	for _, k := range slices.Sorted(maps.Keys(pairs)) {
		out = append(out, Entry{k, pairs[k]})
	}
	return out
}

// Step is one element of the path to a rule.
type Step struct {
	Key   string // never empty
	Value string // empty matches any value; with a * it is a pattern
}

// Pattern reports whether the value contains a *.
func (s Step) Pattern() bool { return strings.Contains(s.Value, "*") }

// Exact reports whether the step matches a single value, which is then not part of the key.
func (s Step) Exact() bool { return s.Value != "" && !s.Pattern() }

// String returns key or key=value.
func (s Step) String() string {
	if s.Value == "" {
		return s.Key
	}
	return s.Key + "=" + s.Value
}

// Path formats steps, for example "database=users, remote_address".
func Path(steps []Step) string {
	words := make([]string, len(steps))
	for i, s := range steps {
		words[i] = s.String()
	}
	return strings.Join(words, ", ")
}

// Namespace returns the namespace of a domain: the domain with invalid characters replaced by -,
// cut to quota.MaxNameLen bytes.
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

// pattern is a value with wildcards, split at each *.
type pattern []string

func newPattern(s string) pattern { return strings.Split(s, "*") }

// literals returns the number of literal bytes.
func (p pattern) literals() (n int) {
	for _, part := range p {
		n += len(part)
	}
	return n
}

// matches compares both ends first, then finds the other parts from left to right: the first match
// of a part is as good as any later one.
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
