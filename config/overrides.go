package config

import (
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/quorate/quorate/internal/quota"
)

const (
	overrideExample  = "{namespace: api, limit: user, key: acme/kim, scale: 2x, expires: 72h}"
	overridesExample = "[" + overrideExample + "]"
)

// ParseOverrides reads a file of overrides and returns them sorted by key. An
// expiry that is written as a duration counts from now, a wall clock. Its error
// is a *FileError with every fault; source is what that calls the file. Whether
// the limits are there, and can be overridden so, it does not know.
func ParseOverrides(source string, data []byte, now quota.Time) ([]quota.Override, error) {
	r := &report{source: source, data: data}
	o := overrideFile{decoder: decoder{r}, now: now, lines: map[quota.Key]int{}}
	if root := r.root("overrides:"); root != nil {
		o.object(place{value: root}, "overrides: "+overridesExample, o.fields())
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	slices.SortFunc(o.overrides, compareOverrides)
	return o.overrides, nil
}

func compareOverrides(a, b quota.Override) int { return a.Key.Compare(b.Key) }

// overrideFile decodes a file of overrides.
type overrideFile struct {
	decoder
	now       quota.Time
	overrides []quota.Override
	lines     map[quota.Key]int
}

func (o *overrideFile) fields() []field {
	return []field{
		{"version", "", func(p place) { o.scalar(p, version()) }},
		{"overrides", "overrides: " + overridesExample, func(p place) {
			if p.value.Kind == yaml.SequenceNode && len(p.value.Content) == 0 {
				return // none
			}
			o.list(p, quota.MaxOverrides, overridesExample, o.override)
		}},
	}
}

func (o *overrideFile) override(p place) {
	one := quota.Override{Burst: -1}
	faults := len(o.faults)
	var unlimited, ban bool
	g := given{}
	ok := o.objectOf(p, overrideExample, o.overrideFields(&one, &unlimited, &ban), func(name string, item place) { g[name] = item })
	if !ok || len(o.faults) > faults {
		return
	}
	switch {
	case unlimited:
		one.Class = quota.Unlimited
	case ban:
		one.Class = quota.Banned
	}
	if !o.one(p, g) {
		return
	}
	if err := one.Validate(); err != nil {
		o.node(p.where(), p.path, "%s", err)
		return
	}
	if line, twice := o.lines[one.Key]; twice {
		o.node(p.where(), p.path, "%s is overridden twice, first in line %d; remove one", shownKey(one.Key), line)
		return
	}
	o.lines[one.Key] = p.where().Line
	o.overrides = append(o.overrides, one)
}

// one requires what changes: unlimited, ban, or some of rate, burst and scale.
func (o *overrideFile) one(p place, g given) bool {
	const choose = "choose unlimited, ban, or some of rate, burst and scale"
	for _, alone := range []string{"unlimited", "ban"} {
		for _, other := range []string{"rate", "burst", "scale", "ban"} {
			if alone != other && g.any(alone) && g.any(other) {
				o.node(g[other].where(), g[other].path, "cannot stand beside %s; %s", alone, choose)
				return false
			}
		}
	}
	if !g.any("unlimited", "ban", "rate", "burst", "scale") {
		o.node(p.where(), p.path, "changes nothing; %s", choose)
		return false
	}
	return true
}

func (o *overrideFile) overrideFields(one *quota.Override, unlimited, ban *bool) []field {
	return []field{
		{"namespace", "namespace: api", func(p place) { o.scalar(p, namespaceName(&one.Key.Namespace)) }},
		{"limit", "limit: user", func(p place) { o.scalar(p, overriddenName(&one.Key.Limit)) }},
		{"key", "key: acme", func(p place) { o.scalar(p, bounded(&one.Key.Key, 1, quota.MaxKeyLen)) }},
		{"rate", "", func(p place) { o.scalar(p, rate(&one.Rate)) }},
		{"burst", "", func(p place) { o.scalar(p, whole(&one.Burst, 0, quota.MaxTokens)) }},
		{"scale", "", func(p place) { o.scalar(p, scale(&one.Scale)) }},
		{"unlimited", "", func(p place) { *unlimited = o.scalar(p, yes()) }},
		{"ban", "", func(p place) { *ban = o.scalar(p, yes()) }},
		{"expires", "", func(p place) { o.scalar(p, expires(&one.Expires, o.now)) }},
		{"comment", "", func(p place) { o.scalar(p, bounded(&one.Comment, 0, quota.MaxCommentLen)) }},
	}
}

// namespaceName reads a namespace, or that of the global default.
func namespaceName(to *string) scalar {
	want := "the name of a namespace: " + nameWant
	return scalar{want: want, set: func(text string) error {
		if text != quota.Global.Namespace && quota.CheckName("", text) != nil {
			return wrong(text, want)
		}
		*to = text
		return nil
	}}
}

// overriddenName reads a limit's name, or what stands for the limits that a
// template makes and for a default.
func overriddenName(to *string) scalar {
	want := "the name of a limit, or " + quota.Template + " or " + quota.Default
	return scalar{want: want, set: func(text string) error {
		if text != quota.Template && text != quota.Default && quota.CheckName("", text) != nil {
			return wrong(text, want)
		}
		*to = text
		return nil
	}}
}

// bounded reads a text of so many bytes.
func bounded(to *string, low, high int) scalar {
	want := "a text of " + strconv.Itoa(low) + " to " + strconv.Itoa(high) + " bytes"
	return scalar{want: want, set: func(text string) error {
		if len(text) < low || len(text) > high {
			return wrong(text, want)
		}
		*to = text
		return nil
	}}
}

// expires reads a moment, or a duration from now.
func expires(to *quota.Time, now quota.Time) scalar {
	want := "a moment after now, such as 2027-01-31T18:00:00Z, or a time from now, such as 72h or 7d"
	return scalar{want: want, set: func(text string) error {
		var at quota.Time
		if d, err := parsePause(text); err == nil && d > 0 && d <= quota.MaxPause {
			at = now.Add(d)
		} else if t, err := time.Parse(time.RFC3339, text); err == nil && t.Year() < 2262 {
			at = quota.Time(t.UnixNano())
		}
		if at <= now {
			return wrong(text, want)
		}
		*to = at
		return nil
	}}
}

// FormatOverrides writes overrides as a file, sorted by key. ParseOverrides
// reads the same back while none has expired, apart from who set them and when.
func FormatOverrides(overrides []quota.Override) []byte {
	sorted := slices.Clone(overrides)
	slices.SortStableFunc(sorted, compareOverrides)
	list := &node{open: len(sorted) > 0, list: true}
	for i := range sorted {
		list.items = append(list.items, overrideNode(&sorted[i]))
	}
	root := newDocument()
	root.set("overrides", list)
	return root.document()
}

func overrideNode(o *quota.Override) *node {
	n := &node{}
	n.add("namespace", yamlText(o.Key.Namespace))
	n.add("limit", yamlText(o.Key.Limit))
	n.add("key", yamlText(o.Key.Key))
	switch o.Class {
	case quota.Unlimited:
		n.add("unlimited", "true")
	case quota.Banned:
		n.add("ban", "true")
	default:
		if o.Rate.Per > 0 {
			n.add("rate", formatRate(o.Rate))
		}
		if o.Burst >= 0 {
			n.add("burst", strconv.FormatInt(o.Burst, 10))
		}
		if o.Scale > 0 {
			n.add("scale", formatParts(o.Scale, quota.Million)+"x")
		}
	}
	if o.Expires > 0 {
		n.add("expires", strconv.Quote(time.Unix(0, int64(o.Expires)).UTC().Format(time.RFC3339Nano)))
	}
	if o.Comment != "" {
		n.add("comment", yamlText(o.Comment))
	}
	return n
}
