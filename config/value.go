package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/suggest"
)

// A Value is one value of a YAML file, and its place. All files, also those of other packages, are
// read through Values: a fault is reported with its place, and reading continues. Use a Value only
// within the call that receives it, and from one goroutine.
type Value struct {
	in   *report
	path string
	key  *yaml.Node // the name of the value; nil at the top and in lists
	node *yaml.Node
}

// A Field is one name that a map may contain.
type Field struct {
	Name string
	Must string // what to write if it is missing; empty if it is optional
	Read func(Value)
}

// Given holds the fields of a map by name; misspelt fields are under the name that was meant.
type Given map[string]Value

// ReadDocuments calls read for each YAML document of a file, which must have 1 to most. What read
// collects is valid only if the returned error, a *FileError with every fault, is nil. source names
// the file in errors; startWith is what errors suggest for an empty file.
func ReadDocuments(source string, data []byte, startWith string, most int, read func(Value)) error {
	r := &report{source: source, data: data}
	r.documents(startWith, most, read)
	return r.err()
}

// at returns the node to which a fault about something missing refers.
func (v Value) at() *yaml.Node {
	if v.key != nil {
		return v.key
	}
	return v.node
}

// Line returns the line of the value, from 1.
func (v Value) Line() int { return v.at().Line }

// IsMap reports whether the value is a map.
func (v Value) IsMap() bool { return v.node.Kind == yaml.MappingNode }

// IsList reports whether the value is a list.
func (v Value) IsList() bool { return v.node.Kind == yaml.SequenceNode }

// emptyList reports whether the value is a list without items.
func (v Value) emptyList() bool { return v.IsList() && len(v.node.Content) == 0 }

func (v Value) isNull() bool { return isNull(v.node) }

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// Faults returns the number of faults reported so far in the whole file.
func (v Value) Faults() int { return len(v.in.faults) }

// Fault reports a fault of the value. The format says what is wrong and what would be right; the
// error puts the value's path before it.
func (v Value) Fault(format string, args ...any) { v.in.faultAt(v.node, v.path, format, args...) }

// faultAtName is Fault, but refers to the name of the value.
func (v Value) faultAtName(format string, args ...any) { v.in.faultAt(v.at(), v.path, format, args...) }

// Missing reports that the value, a map, lacks a field.
func (v Value) Missing(name, format string, args ...any) {
	v.in.faultAt(v.at(), join(v.path, name), format, args...)
}

// Fields reads a map of known fields in file order and returns the fields present, or false if the
// value is not a map. The example says what would be right.
func (v Value) Fields(example string, fields []Field) (Given, bool) {
	given := Given{}
	ok := v.pairs(example, func(name string, item Value) {
		i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
		if i < 0 {
			name = item.unknown(fields)
		} else {
			fields[i].Read(item)
		}
		if _, twice := given[name]; name != "" && !twice {
			given[name] = item
		}
	})
	if !ok {
		return given, false
	}
	for _, f := range fields {
		if f.Must != "" && !given.any(f.Name) {
			v.Missing(f.Name, "is missing; write %s", f.Must)
		}
	}
	return given, true
}

// elsewhere says where fields belong that users often expect in every limit.
var elsewhere = map[string]string{
	"max_keys": "is only for a namespace's template; move it there",
	"idle":     "is only for a namespace's template; move it there",
}

// unknown reports a value with an unknown name, and returns the field that was probably meant.
func (v Value) unknown(fields []Field) (meant string) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	if v.key.Tag == "!!merge" {
		v.faultAtName("is a merge key; write out the fields; merge keys are not allowed")
		return ""
	}
	if say, ok := elsewhere[v.key.Value]; ok {
		v.faultAtName("%s", say)
		return ""
	}
	if s := suggest.Word(v.key.Value, names); s != "" {
		v.faultAtName("unknown field; did you mean %s?", s)
		return s
	}
	v.faultAtName("unknown field; must be one of %s", strings.Join(names, ", "))
	return ""
}

// any reports whether the map has one of the fields.
func (g Given) any(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, ok := g[name]; return ok })
}

// InOrder returns the names in file order.
func (g Given) InOrder() []string {
	return slices.SortedFunc(maps.Keys(g), func(a, b string) int {
		x, y := g[a].at(), g[b].at()
		return cmp.Or(x.Line-y.Line, x.Column-y.Column)
	})
}

// named reads a map whose names the user chooses.
func (v Value) named(example string, visit func(name string, item Value)) {
	v.pairs(example, func(name string, item Value) {
		if quota.CheckName("", name) != nil {
			item.faultAtName("the name %s is not allowed; must be %s", clip(name), nameWant)
		}
		visit(name, item)
	})
}

// pairs calls visit for each pair of a map. It returns false if the value is not a map.
func (v Value) pairs(example string, visit func(string, Value)) bool {
	if !v.IsMap() {
		v.wrongKind("a map, such as " + example)
		return false
	}
	content := v.node.Content
	seen := make(map[string]int, min(len(content)/2, 1024)) // lines
	for i := 0; i+1 < len(content); i += 2 {
		key := content[i]
		if key.Kind != yaml.ScalarNode {
			v.in.faultAt(key, v.path, "%s where a name must be; such as %s", describe(key), example)
			continue
		}
		item := Value{v.in, join(v.path, key.Value), key, content[i+1]}
		if line, twice := seen[key.Value]; twice {
			item.faultAtName("is set twice, first in line %d; remove one", line)
		} else {
			seen[key.Value] = key.Line
		}
		visit(key.Value, item)
	}
	return true
}

// Items calls read for each item of a list of 1 to most items. It returns false if the value is not
// such a list.
func (v Value) Items(most int, example string, read func(Value)) bool {
	if !v.IsList() {
		v.wrongKind("a list, such as " + example)
		return false
	}
	if n := len(v.node.Content); n == 0 || n > most {
		v.Fault("has %d items; must be 1 to %d", n, most)
		return false
	}
	for i, item := range v.node.Content {
		read(Value{in: v.in, path: fmt.Sprintf("%s[%d]", v.path, i), node: item})
	}
	return true
}

// scalar reads one value. It returns false if the value is missing or wrong.
func (v Value) scalar(s scalar) bool {
	if v.node.Kind != yaml.ScalarNode || v.isNull() {
		v.wrongKind(s.want)
		return false
	}
	if quoted := v.node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0; quoted && s.number {
		v.Fault("is %s, in quotes; must be %s, without quotes", clip(v.node.Value), s.want)
		return false
	}
	if err := s.set(v.node.Value); err != nil {
		v.Fault("%s", err)
		return false
	}
	return true
}

// wrongKind reports a value of the wrong kind. plainOnly has already reported aliases.
func (v Value) wrongKind(want string) {
	switch {
	case v.node.Kind == yaml.AliasNode:
	case v.isNull():
		v.faultAtName("%s; must be %s", describe(v.node), want)
	default:
		v.Fault("%s; must be %s", describe(v.node), want)
	}
}

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

// join appends a name to a path, in quotes if it would make the path unreadable.
func join(path, name string) string {
	if quota.CheckName("", name) != nil {
		name = clip(name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// Scalar reads a value from its text. It returns false if the value is missing or wrong.
// want says what would be right, after "must be"; set may return [Wrong].
func (v Value) Scalar(want string, set func(text string) error) bool {
	return v.scalar(scalar{set: set, want: want})
}

// Whole reads a decimal whole number from low to high.
func (v Value) Whole(to *int64, low, high int64) bool { return v.scalar(whole(to, low, high)) }

// Duration reads a duration with its unit, from low to high.
func (v Value) Duration(to *time.Duration, low, high time.Duration) bool {
	return v.scalar(duration(to, low, high))
}

// Number reads a decimal number from low to high.
func (v Value) Number(to *float64, low, high float64) bool {
	want := fmt.Sprintf("a number from %v to %v", plainNumber(low), plainNumber(high))
	return v.scalar(parsed(to, want, func(text string) (float64, bool) {
		n, err := strconv.ParseFloat(text, 64)
		return n, numberForm.MatchString(text) && err == nil && n >= low && n <= high
	}).plain())
}

// Bool reads true or false.
func (v Value) Bool(to *bool) bool { return v.scalar(boolean(to)) }

// OneOf reads one of two or more words.
func (v Value) OneOf(to *string, words ...string) bool {
	return v.scalar(oneOf(to, identity, words...))
}

// Limit reads a limit in the form of a limit file, sets its name, and checks it. It returns false
// if the limit is not valid.
func (v Value) Limit(name quota.LimitName) (quota.Limit, bool) {
	l := newLimitFile(v.in)
	l.limit(name, v)
	if len(l.limits) == 0 {
		return quota.Limit{}, false
	}
	before := v.Faults()
	l.checkTogether()
	return l.limits[0], v.Faults() == before
}
