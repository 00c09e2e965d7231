package config

import (
	"slices"
	"strconv"

	"github.com/quorate/quorate/internal/quota"
)

// FormatVersion is the format version that limit files declare.
const FormatVersion = 1

// LoadLimits reads a limit file. Its error is a *FileError, unless the file
// cannot be read at all.
func LoadLimits(path string) ([]quota.Limit, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return ParseLimits(path, data)
}

// ParseLimits reads a limit file and returns its limits sorted by name, a set
// that quota.NewLimits accepts. Its error is a *FileError with every fault, in which
// source names the file.
func ParseLimits(source string, data []byte) ([]quota.Limit, error) {
	limits, _, err := parseLimits(source, data)
	return limits, err
}

// parseLimits is ParseLimits, and also returns the drafts, which hold the place of each limit.
func parseLimits(source string, data []byte) ([]quota.Limit, map[quota.LimitName]*draft, error) {
	r := &report{source: source, data: data}
	l := newLimitFile(r)
	r.documents("version: 1", 1, l.file)
	slices.SortFunc(l.limits, compareLimits)
	l.checkTogether()
	if err := r.err(); err != nil {
		return nil, nil, err
	}
	return l.limits, l.drafts, nil
}

func compareLimits(a, b quota.Limit) int {
	return a.LimitName.Compare(b.LimitName)
}

// limitFile reads a limit file. Its methods ending in Fields define the whole format: tests derive
// the JSON schema from them.
type limitFile struct {
	*report
	seen   int // limits so far, valid or not
	limits []quota.Limit
	drafts map[quota.LimitName]*draft // the limits as written in the file
	broken map[quota.LimitName]bool   // limits with a fault of their own
}

func newLimitFile(r *report) limitFile {
	return limitFile{report: r, drafts: map[quota.LimitName]*draft{}, broken: map[quota.LimitName]bool{}}
}

const (
	limitExample      = "{rate: 10/s, burst: 20}"
	namespaceExample  = "{limits: {per_client: " + limitExample + "}}"
	namespacesExample = "{web: " + namespaceExample + "}"
)

func (l *limitFile) file(v Value) {
	given, ok := v.Fields("version: 1", l.fields())
	if ok && !given.any("namespaces", "slas", "global_default") {
		v.Missing("namespaces", "is missing; write namespaces: %s, slas or global_default", namespacesExample)
	}
}

func (l *limitFile) fields() []Field {
	return []Field{
		{"version", "version: 1", func(v Value) { v.scalar(version()) }},
		{"global_default", "", func(v Value) { l.limit(quota.Global, v) }},
		{"namespaces", "", func(v Value) { v.named(namespacesExample, l.namespace) }},
		{"slas", "", l.slas},
	}
}

// version reads the format version; only FormatVersion is valid.
func version() scalar {
	is := strconv.Itoa(FormatVersion)
	return matching(new(string), is+", the version of this form", func(text string) bool { return text == is }).plain()
}

func (l *limitFile) namespace(name string, v Value) {
	given, ok := v.Fields(namespaceExample, l.namespaceFields(name))
	if ok && !given.any("limits", "template", "default") {
		v.Missing("limits", "is missing; write limits: {per_client: %s}, template or default", limitExample)
	}
}

func (l *limitFile) namespaceFields(namespace string) []Field {
	return []Field{
		{"default", "", func(v Value) { l.limit(quota.LimitName{Namespace: namespace, Limit: quota.Default}, v) }},
		{"template", "", func(v Value) { l.limit(quota.LimitName{Namespace: namespace, Limit: quota.Template}, v) }},
		{"limits", "", func(v Value) {
			v.named("{per_client: "+limitExample+"}", func(name string, v Value) {
				l.limit(quota.LimitName{Namespace: namespace, Limit: name}, v)
			})
		}},
	}
}

// room counts a limit, and reports the first one beyond the bound.
func (l *limitFile) room(v Value) bool {
	l.seen++
	if l.seen == quota.MaxLimits+1 {
		v.faultAtName("is over the maximum of %d limits in a file", quota.MaxLimits)
	}
	return l.seen <= quota.MaxLimits
}

// limit reads one limit and checks it on its own.
func (l *limitFile) limit(name quota.LimitName, v Value) {
	l.broken[name] = true // until it is added
	if !l.room(v) {
		return
	}
	d := &draft{Limit: quota.Limit{LimitName: name}, tier: newTier(), value: v}
	faults := len(l.faults)
	fields := l.limitFields(d)
	if name.Limit == quota.Template {
		fields = append(fields, l.templateFields(d)...)
	}
	var ok bool
	if d.given, ok = v.Fields(limitExample, fields); !ok {
		return
	}
	if !l.finish(d) || len(l.faults) > faults {
		return
	}
	l.add(d)
}

// add checks a finished limit on its own, and keeps it.
func (l *limitFile) add(d *draft) {
	unnamed := d.Limit
	unnamed.LimitName = quota.Global // names are checked when read
	if err := unnamed.Validate(); err != nil {
		l.locate(d, err)
		return
	}
	if first, twice := l.drafts[d.LimitName]; twice {
		if first.value.path != d.value.path { // equal paths mean a duplicate key, which is already reported
			d.value.faultAtName("%v is a duplicate, first in line %d; remove one", d.LimitName, first.value.Line())
		}
		return
	}
	l.drafts[d.LimitName] = d
	delete(l.broken, d.LimitName)
	l.limits = append(l.limits, d.Limit)
}
