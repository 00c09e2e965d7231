package quota

import (
	"slices"
	"strings"
)

// HTTPNamespace is where requests by HTTP method and path are looked up unless
// they name a namespace: that of the slas of limit files.
const HTTPNamespace = "slas"

// HTTP appends the limits of a namespace that match an HTTP request to out, in
// order of their names, and reports whether the namespace has any to match. All
// that match are to be charged.
func (s *Limits) HTTP(out []*Limit, namespace, method, path string) (matching []*Limit, any bool) {
	if s == nil {
		return out, false
	}
	root := s.matches[namespace]
	if root == nil {
		return out, false
	}
	before := len(out)
	out = root.find(out, method, bare(path))
	found := out[before:]
	slices.SortFunc(found, func(a, b *Limit) int { return strings.Compare(a.LimitName.Limit, b.LimitName.Limit) })
	found = slices.Compact(found)
	return out[:before+len(found)], true
}

// bare is a path as patterns are compared with it.
func bare(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return trimSlash(path)
}

// Matches reports whether the request is meant. The path is compared as it is,
// without its query; a "/" at its end is passed over. Methods are compared
// without regard to case.
func (m *Match) Matches(method, path string) bool {
	return m.allows(method) && matchPath(trimSlash(m.Path), bare(path))
}

// allows reports whether the method is meant.
func (m *Match) allows(method string) bool {
	if len(m.Methods) == 0 {
		return true
	}
	for _, w := range m.Methods {
		if strings.EqualFold(w, method) {
			return true
		}
	}
	return false
}

func trimSlash(s string) string {
	if len(s) > 1 {
		return strings.TrimSuffix(s, "/")
	}
	return s
}

// matchPath compares segment by segment. After a mismatch only the last ** is
// tried again, one segment further: earlier ones cannot help any more. So the
// work is at most the product of both numbers of segments.
func matchPath(pattern, path string) bool {
	retryPattern, retryPath, again := "", "", false
	for pattern != "" || path != "" {
		segment, rest := cutSegment(pattern)
		if segment == "/**" {
			retryPattern, retryPath, again = rest, path, true
			pattern = rest
			continue
		}
		at, left := cutSegment(path)
		if pattern != "" && path != "" && matchSegment(segment, at) {
			pattern, path = rest, left
			continue
		}
		if !again || retryPath == "" {
			return false
		}
		_, retryPath = cutSegment(retryPath)
		pattern, path = retryPattern, retryPath
	}
	return true
}

// cutSegment cuts the first "/segment" off.
func cutSegment(s string) (segment, rest string) {
	if s == "" {
		return "", ""
	}
	if i := strings.IndexByte(s[1:], '/'); i >= 0 {
		return s[:i+1], s[i+1:]
	}
	return s, ""
}

// matchSegment compares one segment, in which * is any number of bytes, with
// the same way of going back.
func matchSegment(pattern, s string) bool {
	star, mark := -1, 0
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && pattern[p] == s[i]:
			p, i = p+1, i+1
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	// A lone * is one segment, and a segment has something in it.
	return p == len(pattern) && (pattern != "/*" || len(s) > 1)
}
