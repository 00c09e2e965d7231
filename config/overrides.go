package config

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/quorate/quorate/internal/quota"
)

const (
	overrideExample  = "{namespace: api, limit: user, key: acme/kim, scale: 2x, expires: 72h}"
	overridesExample = "[" + overrideExample + "]"
)

// ParseOverrides reads a file of overrides and returns them sorted by key. An expiry given as a
// duration counts from now, a wall clock time. Its error is a *FileError with every fault, in which
// source names the file. ParseOverrides does not check whether the limits exist and allow such
// overrides.
func ParseOverrides(source string, data []byte, now quota.Time) ([]quota.Override, error) {
	o := overrideFile{now: now, lines: map[quota.Key]int{}}
	err := ReadDocuments(source, data, "overrides:", 1, func(v Value) { v.Fields("overrides: "+overridesExample, o.fields()) })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(o.overrides, compareOverrides)
	return o.overrides, nil
}

func compareOverrides(a, b quota.Override) int { return a.Key.Compare(b.Key) }

// overrideFile decodes a file of overrides.
type overrideFile struct {
	now       quota.Time
	overrides []quota.Override
	lines     map[quota.Key]int
}

func (o *overrideFile) fields() []Field {
	return []Field{
		{"version", "", func(v Value) { v.scalar(version()) }},
		{"overrides", "overrides: " + overridesExample, func(v Value) {
			if !v.emptyList() {
				v.Items(quota.MaxOverrides, overridesExample, o.override)
			}
		}},
	}
}

func (o *overrideFile) override(v Value) {
	one := quota.Override{Burst: -1}
	faults := v.Faults()
	var unlimited, ban bool
	g, ok := v.Fields(overrideExample, o.overrideFields(&one, &unlimited, &ban))
	if !ok || v.Faults() > faults {
		return
	}
	switch {
	case unlimited:
		one.Class = quota.Unlimited
	case ban:
		one.Class = quota.Banned
	}
	if !o.one(v, g) {
		return
	}
	if err := one.Validate(); err != nil {
		v.faultAtName("%s", err)
		return
	}
	if line, twice := o.lines[one.Key]; twice {
		v.faultAtName("%s is overridden twice, first in line %d; remove one", shownKey(one.Key), line)
		return
	}
	o.lines[one.Key] = v.Line()
	o.overrides = append(o.overrides, one)
}

// shownKey returns a key for an error message, quoted if it has unprintable characters.
func shownKey(k quota.Key) string {
	key := k.Key
	if strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }) {
		key = strconv.Quote(key)
	}
	return k.LimitName.String() + "/" + key
}

// one requires exactly one of: unlimited, ban, or some of rate, burst and scale.
func (o *overrideFile) one(v Value, g Given) bool {
	const choose = "choose unlimited, ban, or some of rate, burst and scale"
	for _, alone := range []string{"unlimited", "ban"} {
		for _, other := range []string{"rate", "burst", "scale", "ban"} {
			if alone != other && g.any(alone) && g.any(other) {
				g[other].faultAtName("cannot be combined with %s; %s", alone, choose)
				return false
			}
		}
	}
	if !g.any("unlimited", "ban", "rate", "burst", "scale") {
		v.faultAtName("changes nothing; %s", choose)
		return false
	}
	return true
}

func (o *overrideFile) overrideFields(one *quota.Override, unlimited, ban *bool) []Field {
	return []Field{
		{"namespace", "namespace: api", func(v Value) { v.scalar(namespaceName(&one.Key.Namespace)) }},
		{"limit", "limit: user", func(v Value) { v.scalar(overriddenName(&one.Key.Limit)) }},
		{"key", "key: acme", func(v Value) { v.scalar(bounded(&one.Key.Key, 1, quota.MaxKeyLen)) }},
		{"rate", "", func(v Value) { v.scalar(rate(&one.Rate)) }},
		{"burst", "", func(v Value) { v.scalar(whole(&one.Burst, 0, quota.MaxTokens)) }},
		{"scale", "", func(v Value) { v.scalar(scale(&one.Scale)) }},
		{"unlimited", "", func(v Value) { *unlimited = v.scalar(onlyTrue()) }},
		{"ban", "", func(v Value) { *ban = v.scalar(onlyTrue()) }},
		{"expires", "", func(v Value) { v.scalar(expires(&one.Expires, o.now)) }},
		{"comment", "", func(v Value) { v.scalar(bounded(&one.Comment, 0, quota.MaxCommentLen)) }},
	}
}

// namespaceName reads a namespace, including that of the global default.
func namespaceName(to *string) scalar {
	return matching(to, "the name of a namespace: "+nameWant, func(text string) bool {
		return text == quota.Global.Namespace || quota.CheckName("", text) == nil
	})
}

// overriddenName reads the name of a limit, including a namespace's template or default.
func overriddenName(to *string) scalar {
	return matching(to, "the name of a limit, or "+quota.Template+" or "+quota.Default, func(text string) bool {
		return text == quota.Template || text == quota.Default || quota.CheckName("", text) == nil
	})
}

// bounded reads a text of low to high bytes.
func bounded(to *string, low, high int) scalar {
	want := "a text of " + strconv.Itoa(low) + " to " + strconv.Itoa(high) + " bytes"
	return matching(to, want, func(text string) bool { return len(text) >= low && len(text) <= high })
}

// expires reads a time, or a duration from now.
func expires(to *quota.Time, now quota.Time) scalar {
	const want = "a moment after now, such as 2027-01-31T18:00:00Z, or a time from now, such as 72h or 7d"
	return parsed(to, want, func(text string) (at quota.Time, ok bool) {
		if d, err := parsePause(text); err == nil && d > 0 && d <= quota.MaxPause {
			at = now.Add(d)
		} else if t, err := time.Parse(time.RFC3339, text); err == nil && t.Year() < 2262 && t.After(time.Unix(0, int64(now))) { // nanoseconds of a time before 1678 would be later
			at = quota.Time(t.UnixNano())
		}
		return at, at > now
	})
}

// FormatOverrides writes overrides as a file, sorted by key. Until one expires, ParseOverrides
// reads the same overrides back, without their authors and times.
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
