package console

import (
	"regexp"
	"slices"
	"strings"
)

// wholeCheck is the size in bytes up to which all limits of a file, or of a namespace, are checked
// when a part of it is edited.
const wholeCheck = 64 << 10

var parentIn = regexp.MustCompile(`\bparent: "?([^",}\s]+)`)

// near returns the lines of a file that can affect the validity of one part: limits refer only to
// limits of their own namespace. For a large namespace that is the limit, those named in the new
// text, their parents and children, and the default and the template. So checking one limit of
// 60,000 takes hardly longer than one of ten; the node checks all of them when they are applied.
func near(yaml, namespace, limit, text string) string {
	if len(yaml) <= wholeCheck || namespace == "" || namespace == globalNamespace {
		return yaml
	}
	in := cut(yaml, namespace, "")
	if in.empty() {
		return nearHead + "namespaces: {}\n"
	}
	lines := in.file[in.first:in.end]
	if limit != "" && size(lines) > wholeCheck {
		lines = in.relatives(limit, splitLines(text))
	}
	return nearHead + "namespaces:\n" + strings.Join(lines, "\n") + "\n"
}

const nearHead = "version: 1\n"

func size(lines []string) (n int) {
	for _, l := range lines {
		n += len(l) + 1
	}
	return n
}

// relatives returns the lines of a namespace that matter to one of its limits and to its new text.
func (s section) relatives(limit string, text []string) []string {
	out := []string{s.file[s.first]}
	named := s.child("limits", 4, s.end)
	for _, word := range []string{defaultLimit, templateLimit} {
		one := s.child(word[1:], 4, s.end)
		out = append(out, s.file[one.first:one.end]...)
	}
	if named.empty() {
		return out
	}
	blocks, order := named.blocks(6)
	wanted := map[string]bool{}
	for _, from := range append(namedIn(text), limit) {
		for up := from; up != "" && !wanted[up]; up = parentOf(blocks[up]) {
			wanted[up] = true
		}
	}
	var kept []string
	for _, name := range order {
		if wanted[name] || parentOf(blocks[name]) == limit {
			kept = append(kept, blocks[name]...)
		}
	}
	if len(kept) > 0 {
		out = append(append(out, s.file[named.first]), kept...)
	}
	return slices.Clip(out)
}

// blocks returns the lines of each field at the indentation, and their order.
func (s section) blocks(indent int) (of map[string][]string, order []string) {
	of = map[string][]string{}
	name := ""
	for _, l := range s.file[s.first+1 : s.end] {
		if key, ok := keyAt(l, indent); ok {
			name = key
			order = append(order, name)
		}
		of[name] = append(of[name], l)
	}
	return of, order
}

// namedIn returns the limits in a text, and their parents.
func namedIn(text []string) (out []string) {
	for _, l := range text {
		if key, ok := keyAt(l, 0); ok {
			out = append(out, key)
		}
		if p := parentOf([]string{l}); p != "" {
			out = append(out, p)
		}
	}
	return out
}

func parentOf(block []string) string {
	for _, l := range block {
		if m := parentIn.FindStringSubmatch(l); m != nil {
			return m[1]
		}
	}
	return ""
}
