package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

// syntaxHints maps the most common errors of the YAML parser to what would be right.
var syntaxHints = []struct{ complaint, hint string }{
	{"cannot start any token", "put the text in quotes"},
	{"mapping values are not allowed", "check the indentation, and put text that has ': ' in quotes"},
	{"expected ',' or", "separate with commas, and close every bracket"},
	{"could not find expected ':'", "write it as name: value"},
	{"unexpected end of stream", "close the quote"},
	{"incompatible YAML document", "leave the %YAML line out"},
	{"unknown anchor", "write out the value; anchors and aliases are not allowed"},
	{"exceeded max depth", "check the brackets; the nesting is too deep"},
	{"expected key", "check the indentation and the brackets"},
	{"expected '-'", "check the indentation and the brackets"},
	{"expected node content", "write a value, and close every bracket"},
}

// syntax reports where the YAML parser failed. It reads nothing after that place.
func (r *report) syntax(err error) {
	var le *yaml.LoadError
	if !errors.As(err, &le) {
		r.fault(0, 0, "", "is not valid YAML: %v", err)
		return
	}
	at, begun := le.Mark, le.ContextMark
	if at.Line > bytes.Count(r.data, []byte("\n")) && begun.Line > 0 {
		at = begun // the opening bracket or quote helps more than the end of the file
	}
	message := le.Message
	if le.ContextMsg != "" {
		message = le.ContextMsg + ": " + message
	}
	if begun.Line > 0 && begun.Line < at.Line {
		message += fmt.Sprintf(" (begun at %d:%d)", begun.Line, begun.Column)
	}
	r.fault(at.Line, at.Column, "", "is not valid YAML, the rest was not read: %s; %s", message, syntaxHint(message))
}

func syntaxHint(message string) string {
	for _, h := range syntaxHints {
		if strings.Contains(message, h.complaint) {
			return h.hint
		}
	}
	return "check the line and the one before it"
}

// plainOnly reports anchors, aliases and tags, which are not allowed. Aliases are never
// followed, so a small file cannot expand into a large one.
func (r *report) plainOnly(n *yaml.Node) {
	if n.Anchor != "" {
		r.faultAt(n, "", "has the anchor %s; must be the value alone, anchors are not allowed", clip(n.Anchor))
	}
	if n.Kind == yaml.AliasNode {
		r.faultAt(n, "", "is an alias of %s; write out the value; aliases are not allowed", clip(n.Value))
	}
	if n.Style&yaml.TaggedStyle != 0 {
		r.faultAt(n, "", "has the tag %s; must be the value alone, tags are not allowed", clip(n.Tag))
	}
	for _, c := range n.Content {
		r.plainOnly(c)
	}
}
