package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/quorate/quorate/internal/nearest"
	"github.com/quorate/quorate/internal/quota"
)

// A decoder walks the YAML of one file and reports every fault on the way. It
// knows maps, lists and scalars; what fields there are, its callers say.
type decoder struct{ *report }

// A place is one value of a file, and what it is called there.
type place struct {
	path  string
	key   *yaml.Node // the name before the value; nil at the top and in lists
	value *yaml.Node
}

// where is the node to point at for what is missing in the place.
func (p place) where() *yaml.Node {
	if p.key != nil {
		return p.key
	}
	return p.value
}

// A field is one name that a map may have.
type field struct {
	name string
	must string // what to write when it is missing; empty when it may be
	read func(place)
}

// object reads a map of known fields. The example says what would be right.
func (d decoder) object(p place, example string, fields []field) bool {
	return d.objectOf(p, example, fields, func(string, place) {})
}

// objectOf is object, and tells which fields are there, by the name that was
// meant.
func (d decoder) objectOf(p place, example string, fields []field, there func(name string, item place)) bool {
	meant := map[string]bool{} // fields that are there, or misspelt
	_, ok := d.pairs(p, example, func(name string, item place) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i < 0 {
			name = d.unknown(item, fields)
		} else {
			fields[i].read(item)
		}
		if name != "" {
			meant[name] = true
			there(name, item)
		}
	})
	if !ok {
		return false
	}
	for _, f := range fields {
		if f.must != "" && !meant[f.name] {
			d.node(p.where(), join(p.path, f.name), "is missing; write %s", f.must)
		}
	}
	return true
}

// elsewhere says where fields belong that are well known, but not here.
var elsewhere = map[string]string{
	"max_keys": "is only for a namespace's template; move it there",
	"idle":     "is only for a namespace's template; move it there",
}

// unknown reports a field that no one knows, and returns which was meant.
func (d decoder) unknown(item place, fields []field) (meant string) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	if item.key.Tag == "!!merge" {
		d.node(item.key, item.path, "is a merge key; write the fields out, merge keys are not allowed")
		return ""
	}
	if say, ok := elsewhere[item.key.Value]; ok {
		d.node(item.key, item.path, "%s", say)
		return ""
	}
	if s := nearest.Word(item.key.Value, names); s != "" {
		d.node(item.key, item.path, "unknown field; did you mean %s?", s)
		return s
	}
	d.node(item.key, item.path, "unknown field; must be one of %s", strings.Join(names, ", "))
	return ""
}

// named reads a map from names that the user chooses to anything.
func (d decoder) named(p place, example string, visit func(name string, item place)) {
	d.pairs(p, example, func(name string, item place) {
		if quota.CheckName("", name) != nil {
			d.node(item.key, item.path, "the name %s is not allowed; must be %s", clip(name), nameWant)
		}
		visit(name, item)
	})
}

// pairs calls visit for each pair of a map, and returns the names seen.
func (d decoder) pairs(p place, example string, visit func(string, place)) (map[string]int, bool) {
	if p.value.Kind != yaml.MappingNode {
		d.wrongKind(p, "a map, such as "+example)
		return nil, false
	}
	content := p.value.Content
	seen := make(map[string]int, min(len(content)/2, 1024))
	for i := 0; i+1 < len(content); i += 2 {
		key, value := content[i], content[i+1]
		if key.Kind != yaml.ScalarNode {
			d.node(key, p.path, "%s where a name must be; such as %s", describe(key), example)
			continue
		}
		item := place{join(p.path, key.Value), key, value}
		if line, twice := seen[key.Value]; twice {
			d.node(key, item.path, "is set twice, first in line %d; remove one", line)
		} else {
			seen[key.Value] = key.Line
		}
		visit(key.Value, item)
	}
	return seen, true
}

// list calls visit for each item of a list of 1 to most items.
func (d decoder) list(p place, most int, example string, visit func(place)) bool {
	if p.value.Kind != yaml.SequenceNode {
		d.wrongKind(p, "a list, such as "+example)
		return false
	}
	if n := len(p.value.Content); n == 0 || n > most {
		d.node(p.value, p.path, "has %d items; must be 1 to %d", n, most)
		return false
	}
	for i, item := range p.value.Content {
		visit(place{path: fmt.Sprintf("%s[%d]", p.path, i), value: item})
	}
	return true
}

// scalar reads one value; false when it is not there or wrong.
func (d decoder) scalar(p place, s scalar) bool {
	n := p.value
	if n.Kind != yaml.ScalarNode || isNull(n) {
		d.wrongKind(p, s.want)
		return false
	}
	if quoted := n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0; quoted && s.number {
		d.node(n, p.path, "is %s, in quotes; must be %s, without quotes", clip(n.Value), s.want)
		return false
	}
	if err := s.set(n.Value); err != nil {
		d.node(n, p.path, "%s", err)
		return false
	}
	return true
}

// wrongKind reports a value of another kind; plainOnly has reported aliases.
func (d decoder) wrongKind(p place, want string) {
	if p.value.Kind == yaml.AliasNode {
		return
	}
	at := p.value
	if isNull(at) {
		at = p.where()
	}
	d.node(at, p.path, "%s; must be %s", describe(p.value), want)
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "is a map"
	case n.Kind == yaml.SequenceNode:
		return "is a list"
	case n.Kind == yaml.AliasNode:
		return "is an alias"
	case isNull(n):
		return "has no value"
	}
	return "is " + clip(n.Value)
}

// join makes a path. Names that would make it unreadable are quoted.
func join(path, name string) string {
	if quota.CheckName("", name) != nil {
		name = clip(name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}
