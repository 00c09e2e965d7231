package quota

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Match selects the HTTP requests that a limit applies to.
type Match struct {
	// Methods are in upper case; empty means all.
	Methods []string
	// Path is a pattern: * matches one segment or a part of one, ** any number of segments;
	// everything else matches itself.
	Path string
}

// HTTPNamespace is the namespace for requests by HTTP method and path that name none: that of the
// slas in limit files.
const HTTPNamespace = "slas"

// NamespaceOf returns the namespace of a check: HTTPNamespace for one by HTTP method and path that names
// none.
func NamespaceOf(namespace, method, path string) string {
	if namespace == "" && (method != "" || path != "") {
		return HTTPNamespace
	}
	return namespace
}

// HTTP appends to out the limits of a namespace that match an HTTP request, sorted by name, and
// reports whether the namespace has any limits with a match. A request is charged to all of them.
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

// bare returns the path in the form that patterns are compared with: no query, no trailing slash.
func bare(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return trimSlash(path)
}

// WholePath returns a decoded path for [Limits.HTTP]: a "?" in it, which the caller wrote as %3F, and bytes that are
// not UTF-8 become DEL, so that they begin no query and match only *. The result is not longer than the path.
func WholePath(decoded string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(decoded, "\x7f"), "?", "\x7f")
}

// Matches reports whether the limit applies to the request. The path is compared as given, without
// its query and one trailing "/". Methods are compared case-insensitively.
func (m *Match) Matches(method, path string) bool {
	return m.allows(method) && matchPath(trimSlash(m.Path), bare(path))
}

// allows reports whether the limit applies to the method.
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

// matchPath compares segment by segment. After a mismatch it retries only the last **, one segment
// further on: an earlier one cannot match more. So the work is at most the product of the numbers
// of segments.
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

// cutSegment splits off the first "/segment".
func cutSegment(s string) (segment, rest string) {
	if s == "" {
		return "", ""
	}
	if i := strings.IndexByte(s[1:], '/'); i >= 0 {
		return s[:i+1], s[i+1:]
	}
	return s, ""
}

// matchSegment compares one segment, where * matches any number of bytes. It backtracks as
// matchPath does.
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
	// A lone * is one segment, and a segment is not empty.
	return p == len(pattern) && (pattern != "/*" || len(s) > 1)
}

// pathNode is a node in the tree of a namespace's path patterns. Patterns are split into segments
// up to their first **. A lookup visits each node at most once, so literal patterns cost one step
// per segment of the path, and no pattern costs more than being tried alone.
type pathNode struct {
	literal map[string]*pathNode // by the next segment, with its slash
	globs   []globNode           // segments that contain *
	here    []*Limit             // limits whose patterns end here
	deep    []deepPattern        // patterns that continue with **, then with a glob or nothing
	// after holds the patterns that continue with ** and then a literal segment, by that segment:
	// they can match only if the rest of the path contains it.
	after map[string][]deepPattern
}

type globNode struct {
	segment string
	next    *pathNode
}

// deepPattern is a pattern from its first ** on.
type deepPattern struct {
	rest string
	l    *Limit
}

// add inserts a limit whose pattern continues with rest.
func (n *pathNode) add(rest string, l *Limit) {
	segment, next := cutSegment(rest)
	switch segment {
	case "":
		n.here = append(n.here, l)
	case "/**":
		first, _ := cutSegment(next)
		if first == "" || strings.Contains(first, "*") {
			n.deep = append(n.deep, deepPattern{rest, l})
			return
		}
		if n.after == nil {
			n.after = map[string][]deepPattern{}
		}
		n.after[first] = append(n.after[first], deepPattern{rest, l})
	default:
		n.child(segment).add(next, l)
	}
}

// child returns the node for a segment of a pattern, and creates it if it is missing.
func (n *pathNode) child(segment string) *pathNode {
	if strings.Contains(segment, "*") {
		for _, g := range n.globs {
			if g.segment == segment {
				return g.next
			}
		}
		next := &pathNode{}
		n.globs = append(n.globs, globNode{segment, next})
		return next
	}
	next := n.literal[segment]
	if next == nil {
		next = &pathNode{}
		if n.literal == nil {
			n.literal = map[string]*pathNode{}
		}
		n.literal[segment] = next
	}
	return next
}

// find appends the limits that match the rest of a path. They are unsorted and may repeat.
func (n *pathNode) find(out []*Limit, method, path string) []*Limit {
	out = appendDeep(out, n.deep, method, path)
	if n.after != nil {
		tried := map[string]bool{}
		for rest := path; rest != ""; {
			var segment string
			segment, rest = cutSegment(rest)
			if list := n.after[segment]; len(list) > 0 && !tried[segment] {
				tried[segment] = true
				out = appendDeep(out, list, method, path)
			}
		}
	}
	if path == "" {
		for _, l := range n.here {
			if l.Match.allows(method) {
				out = append(out, l)
			}
		}
		return out
	}
	segment, rest := cutSegment(path)
	for i := range n.globs {
		if matchSegment(n.globs[i].segment, segment) {
			out = n.globs[i].next.find(out, method, rest)
		}
	}
	if next := n.literal[segment]; next != nil {
		out = next.find(out, method, rest)
	}
	return out
}

func appendDeep(out []*Limit, list []deepPattern, method, path string) []*Limit {
	for i := range list {
		if list[i].l.Match.allows(method) && matchPath(list[i].rest, path) {
			out = append(out, list[i].l)
		}
	}
	return out
}

func (m *Match) equal(o *Match) bool {
	return m == o || m != nil && o != nil && m.Path == o.Path && slices.Equal(m.Methods, o.Methods)
}

func (m *Match) validate() error {
	var errs []error
	if !strings.HasPrefix(m.Path, "/") || len(m.Path) > MaxKeyLen {
		errs = append(errs, fmt.Errorf("match.path: %q; must begin with / and have at most %d bytes", m.Path, MaxKeyLen))
	}
	for _, method := range m.Methods {
		if method == "" || method != strings.ToUpper(method) || strings.ContainsAny(method, " \t/") {
			errs = append(errs, fmt.Errorf("match.methods: %q; must be an HTTP method in upper case", method))
		}
	}
	return errors.Join(errs...)
}
