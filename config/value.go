package config

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/quorate/quorate/internal/quota"
)

// Value is one value of a YAML file that another package reads as strictly as
// this one reads its own: every fault is reported with its place, and reading
// goes on. A Value is used within the call that it is given to, by one
// goroutine.
type Value struct {
	d decoder
	p place
}

// Field is one name that a map may have.
type Field struct {
	Name string
	Must string // what to write when it is missing; empty when it may be
	Read func(Value)
}

// ReadDocuments calls read for each YAML document of a file, of which there are
// 1 to most. What has been read is valid only if the error, a *FileError with
// every fault, is nil. Source is what that calls the file, and startWith what it
// suggests for an empty one.
func ReadDocuments(source string, data []byte, startWith string, most int, read func(Value)) error {
	r := &report{source: source, data: data}
	for _, root := range r.roots(startWith, most) {
		read(Value{decoder{r}, place{value: root}})
	}
	return r.err()
}

// Line is where the value is, from 1.
func (v Value) Line() int { return v.p.where().Line }

// IsMap says whether the value is a map.
func (v Value) IsMap() bool { return isMap(v.p) }

// IsList says whether the value is a list.
func (v Value) IsList() bool { return v.p.value.Kind == yaml.SequenceNode }

// Faults counts what was reported of the whole file so far.
func (v Value) Faults() int { return len(v.d.faults) }

// Fault reports the value. The format says what is wrong, and what would be
// right; it follows the value's path.
func (v Value) Fault(format string, args ...any) { v.d.node(v.p.value, v.p.path, format, args...) }

// Missing reports a field that the value, a map, ought to have.
func (v Value) Missing(name, format string, args ...any) {
	v.d.node(v.p.where(), join(v.p.path, name), format, args...)
}

// Fields reads a map of known fields in the order of the file, and returns those
// that are there, misspelt ones under the name that was meant; false if the
// value is no map. The example says what would be right.
func (v Value) Fields(example string, fields []Field) (map[string]Value, bool) {
	known := make([]field, len(fields))
	for i, f := range fields {
		known[i] = field{f.Name, f.Must, func(p place) { f.Read(Value{v.d, p}) }}
	}
	there, ok := v.d.fieldsOf(v.p, example, known)
	given := make(map[string]Value, len(there))
	for name, p := range there {
		given[name] = Value{v.d, p}
	}
	return given, ok
}

// InOrder returns the names of fields as they come in the file.
func InOrder(given map[string]Value) []string {
	return slices.SortedFunc(maps.Keys(given), func(a, b string) int {
		x, y := given[a].p.where(), given[b].p.where()
		return compareNumbers(x.Line, y.Line, x.Column, y.Column)
	})
}

// Items reads a list of 1 to most items; false if the value is none.
func (v Value) Items(most int, example string, read func(Value)) bool {
	return v.d.list(v.p, most, example, func(p place) { read(Value{v.d, p}) })
}

// Scalar reads a value from its text; false when it is not there or wrong. Want
// says what would be right, after "must be"; set may return [Wrong].
func (v Value) Scalar(want string, set func(text string) error) bool {
	return v.d.scalar(v.p, scalar{set: set, want: want})
}

// Wrong is an error on a text that is not what was wanted.
func Wrong(text, want string) error { return wrong(text, want) }

// Whole reads a decimal whole number from low to high.
func (v Value) Whole(to *int64, low, high int64) bool { return v.d.scalar(v.p, whole(to, low, high)) }

// Duration reads a duration with its unit, from low to high.
func (v Value) Duration(to *time.Duration, low, high time.Duration) bool {
	return v.d.scalar(v.p, duration(to, low, high))
}

// Number reads a decimal number from low to high.
func (v Value) Number(to *float64, low, high float64) bool {
	return v.d.scalar(v.p, number(to, low, high))
}

// Bool reads true or false.
func (v Value) Bool(to *bool) bool { return v.d.scalar(v.p, boolean(to)) }

// OneOf reads one of the words, of which there are two or more.
func (v Value) OneOf(to *string, words ...string) bool {
	return v.d.scalar(v.p, oneOf(to, func(s string) string { return s }, words...))
}

// Limit reads a limit in the form of a limit file and checks it; false if it is
// not valid. Its name is what is given here.
func (v Value) Limit(name quota.LimitName) (quota.Limit, bool) {
	l := newLimitFile(v.d)
	l.limit(name, v.p)
	if len(l.limits) == 0 {
		return quota.Limit{}, false
	}
	before := len(l.faults)
	l.checkTogether()
	return l.limits[0], len(l.faults) == before
}

// numberForm is a number as people write it: neither hexadecimal, nor infinite.
var numberForm = regexp.MustCompile(`^-?[0-9]{1,18}(\.[0-9]{1,18})?$`)

// number reads a decimal number from low to high.
func number(to *float64, low, high float64) scalar {
	want := fmt.Sprintf("a number from %v to %v", plainNumber(low), plainNumber(high))
	return scalar{number: true, want: want, set: func(text string) error {
		n, err := strconv.ParseFloat(text, 64)
		if !numberForm.MatchString(text) || err != nil || n < low || n > high || math.IsNaN(n) {
			return wrong(text, want)
		}
		*to = n
		return nil
	}}
}

func plainNumber(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
