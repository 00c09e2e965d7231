package quota

import "strings"

// pathNode is a place in the tree of the path patterns of one namespace: the limits
// whose patterns begin with the segments on the way to it. Patterns are in the tree up
// to their first **, so a path meets every place at most once: the work is that of the
// segments of the path where patterns are literal, and never more than that of trying
// all patterns.
type pathNode struct {
	literal map[string]*pathNode // by the next segment, with its slash
	globs   []globNode           // segments with * in them, a lone one included
	here    []*Limit             // whose patterns end here
	deep    []deepPattern        // that go on with **, then with * or nothing
	after   map[string][]deepPattern
	// after has those that go on with **, then with that literal segment: it is
	// somewhere in the rest of the path.
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

// add enters a limit whose pattern goes on with rest.
func (n *pathNode) add(rest string, l *Limit) {
	segment, next := cutSegment(rest)
	switch segment {
	case "":
		n.here = append(n.here, l)
	case "/**":
		n.addDeep(rest, next, l)
	default:
		n.child(segment).add(next, l)
	}
}

func (n *pathNode) addDeep(rest, next string, l *Limit) {
	first, _ := cutSegment(next)
	if first == "" || strings.Contains(first, "*") {
		n.deep = append(n.deep, deepPattern{rest, l})
		return
	}
	if n.after == nil {
		n.after = map[string][]deepPattern{}
	}
	n.after[first] = append(n.after[first], deepPattern{rest, l})
}

// child returns the place after a segment of a pattern.
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

// find appends the limits that match the rest of a path, in no order; one may be there
// twice.
func (n *pathNode) find(out []*Limit, method, path string) []*Limit {
	out = n.findDeep(out, method, path)
	if path == "" {
		return appendAllowed(out, n.here, method)
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

func (n *pathNode) findDeep(out []*Limit, method, path string) []*Limit {
	out = appendDeep(out, n.deep, method, path)
	if n.after == nil {
		return out
	}
	for rest := path; rest != ""; {
		var segment string
		segment, rest = cutSegment(rest)
		out = appendDeep(out, n.after[segment], method, path)
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

func appendAllowed(out, list []*Limit, method string) []*Limit {
	for _, l := range list {
		if l.Match.allows(method) {
			out = append(out, l)
		}
	}
	return out
}
