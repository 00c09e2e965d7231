package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/descriptor"
	"github.com/quorate/quorate/internal/quota"
)

// Converted is the result of a conversion.
type Converted struct {
	Limits []quota.Limit // sorted by name
	YAML   []byte        // the same as a limit file
	Notes  []Note        // what to know and to do, in source order
}

// A Note names something that the conversion could not carry over unchanged, or that callers have
// to change.
type Note struct {
	Path string // the field in the source; empty for the whole file
	What string // what the conversion did
	Do   string // what the user has to do; empty for nothing
}

// converters lists the readers of other systems' files.
var converters = []struct {
	from    string
	start   string // how the file begins
	convert func(c *conversion, v Value)
}{
	{"quotaservice", "namespaces:", (*conversion).quotaservice},
	{"envoy-ratelimit", "domain: web", (*conversion).envoy},
	{"slas", "slas:", (*conversion).slaFile},
}

// ConvertFrom returns the forms that Convert reads: the YAML configurations of
// square/quotaservice and of envoyproxy/ratelimit, and a file with slas alone.
func ConvertFrom() []string {
	var out []string
	for _, c := range converters {
		out = append(out, c.from)
	}
	return out
}

// Convert reads another system's file, in one of the forms of ConvertFrom, and writes a
// limit file. Its error is a *FileError with every fault of the source, or says that
// the form is unknown.
func Convert(from, source string, data []byte) (Converted, error) {
	i := slices.Index(ConvertFrom(), from)
	if i < 0 {
		return Converted{}, fmt.Errorf("from: is %s; must be one of %s", clip(from), strings.Join(ConvertFrom(), ", "))
	}
	r := &report{source: source, data: data}
	c := newConversion(r)
	r.documents(converters[i].start, 1, func(v Value) { converters[i].convert(c, v) })
	if err := r.err(); err != nil {
		return Converted{}, err
	}
	slices.SortFunc(c.limits, compareLimits)
	return Converted{Limits: c.limits, YAML: FormatLimits(c.limits), Notes: c.notes}, nil
}

// conversion reads the file of another system and collects its limits.
type conversion struct {
	limitFile
	notes  []Note
	domain descriptor.Domain // of envoyproxy/ratelimit: the source as rules
}

func newConversion(r *report) *conversion {
	return &conversion{limitFile: newLimitFile(r)}
}

func (c *conversion) note(path, do, what string, args ...any) {
	c.notes = append(c.notes, Note{Path: path, What: fmt.Sprintf(what, args...), Do: do})
}

// noted returns a field of the source that has no counterpart and only leaves a note.
func (c *conversion) noted(name, do, what string) Field {
	return Field{name, "", func(v Value) { c.note(v.path, do, "%s", what) }}
}

// keep adds the limit that a value of the source became.
func (c *conversion) keep(l quota.Limit, v Value) {
	if c.room(v) {
		c.add(&draft{Limit: l, value: v})
	}
}

// slaFile converts a file with only slas.
func (c *conversion) slaFile(v Value) {
	v.Fields("slas: ["+slaExample+"]", []Field{{"slas", "slas: [" + slaExample + "]", c.slas}})
	for i := range c.limits {
		l := &c.limits[i]
		where := c.drafts[l.LimitName].value.path
		c.note(where, "check a request by its method and path, with the tenant as the key",
			"becomes the limit %v, counted by key in windows aligned to the Unix epoch", l.LimitName)
		if l.Enforcement == quota.Off {
			c.note(where+".enabled", "remove the limit, or use enforcement: shadow to see what it would refuse", "is false, which becomes enforcement: off")
		}
	}
}
