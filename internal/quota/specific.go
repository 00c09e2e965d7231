package quota

import (
	"cmp"
	"strings"
)

// Match returns the limit of a namespace that is most specific about an HTTP
// request, and whether there is one. See [Limits.HTTP] for all that match.
//
// Patterns are compared segment by segment from the left. At the first
// difference in kind, a literal segment goes before one with * in it, that one
// before a lone *, then where a pattern ends, and last **; of two segments with
// * in them, the one with more literal bytes. Then a limit that lists methods
// goes before one for all, and at last the order of names decides.
func (s *Limits) Match(namespace, method, path string) (*Limit, bool) {
	matching, _ := s.HTTP(nil, namespace, method, path)
	if len(matching) == 0 {
		return nil, false
	}
	best := matching[0]
	for _, l := range matching[1:] {
		if moreSpecific(l.Match, best.Match) < 0 {
			best = l
		}
	}
	return best, true
}

// moreSpecific is below 0 if a is to be chosen before b.
func moreSpecific(a, b *Match) int {
	p, q := trimSlash(a.Path), trimSlash(b.Path)
	for p != "" || q != "" {
		var x, y string
		x, p = cutSegment(p)
		y, q = cutSegment(q)
		if c := cmp.Or(cmp.Compare(vague(x), vague(y)), cmp.Compare(literals(y), literals(x))); c != 0 {
			return c
		}
	}
	return cmp.Compare(min(len(b.Methods), 1), min(len(a.Methods), 1))
}

// vague ranks a segment, with its slash, by what it leaves open.
func vague(segment string) int {
	switch {
	case segment == "/**":
		return 4
	case segment == "":
		return 3
	case segment == "/*":
		return 2
	case strings.Contains(segment, "*"):
		return 1
	}
	return 0
}

// literals counts the bytes that a segment with * asks for.
func literals(segment string) int {
	if vague(segment) != 1 {
		return 0
	}
	return len(segment) - strings.Count(segment, "*")
}
