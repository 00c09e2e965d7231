package config

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A node is a piece of YAML output: a text, a map, or a list.
type node struct {
	text   string // of a scalar, in YAML syntax
	fields []pair
	items  []*node
	list   bool // a list, even if empty
	open   bool // always one line per field
}

type pair struct {
	name  string
	value *node
}

// add adds a field whose text is already YAML.
func (n *node) add(name, text string) { n.set(name, &node{text: text}) }

func (n *node) set(name string, value *node) {
	n.fields = append(n.fields, pair{yamlText(name), value})
}

// lineWidth is the longest line in which a map is written on one line.
const lineWidth = 120

// block writes the fields of a map, or the items of a list, one per line.
func (n *node) block(b *bytes.Buffer, indent int) {
	for _, f := range n.fields {
		f.value.after(b, indent, f.name+":")
	}
	for _, item := range n.items {
		item.after(b, indent, "-")
	}
}

// after writes the value after its name, on the same line if it fits, otherwise below.
func (n *node) after(b *bytes.Buffer, indent int, name string) {
	b.WriteString(strings.Repeat(" ", indent) + name)
	if !n.open {
		flow := n.flow()
		if n.text != "" || len(n.fields)+len(n.items) == 0 || indent+len(name)+1+len(flow) <= lineWidth {
			b.WriteString(" " + flow + "\n")
			return
		}
	}
	if name == "-" { // the first field is on the same line
		var below bytes.Buffer
		n.block(&below, indent+2)
		b.WriteString(" " + strings.TrimLeft(below.String(), " "))
		return
	}
	b.WriteByte('\n')
	n.block(b, indent+2)
}

// flow writes the value on one line.
func (n *node) flow() string {
	if n.text != "" {
		return n.text
	}
	var parts []string
	for _, f := range n.fields {
		parts = append(parts, f.name+": "+f.value.flow())
	}
	for _, item := range n.items {
		parts = append(parts, item.flow())
	}
	text := strings.Join(parts, ", ")
	if len(n.items) > 0 || n.list {
		return "[" + text + "]"
	}
	return "{" + text + "}"
}

// yamlWords lists texts that some YAML readers take for another kind of value.
var yamlWords = []string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}

// plainText matches texts that never need quotes, even within brackets.
var plainText = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9._/*+%-]*$`)

// yamlText quotes a text that YAML might take for something else.
func yamlText(s string) string {
	if !plainText.MatchString(s) || slices.Contains(yamlWords, strings.ToLower(s)) {
		return strconv.Quote(s)
	}
	return s
}
