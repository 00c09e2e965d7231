package config

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/quorate/quorate/internal/quota"
)

const (
	envoyExample      = "{key: remote_address, rate_limit: {unit: second, requests_per_unit: 10}}"
	envoyLimitExample = "{unit: second, requests_per_unit: 10}"
	envoyMaxDepth     = 64
)

// envoy converts a domain and its tree of descriptors: a limit for every one
// that has a rate_limit.
func (c *conversion) envoy(p place) {
	var domain string
	var descriptors place
	ok := c.object(p, "domain: web", []field{
		{"domain", "domain: web", func(p place) { c.scalar(p, text(&domain, "a name")) }},
		{"descriptors", "", func(p place) { descriptors = p }},
	})
	if !ok {
		return
	}
	namespace := c.envoyName(domain, join(p.path, "domain"))
	if descriptors.value != nil {
		c.envoyList(namespace, nil, descriptors)
	}
}

// envoyName makes a name of ours, and notes when it is another one.
func (c *conversion) envoyName(name, path string) string {
	ours := ourName(name)
	if ours != name {
		c.note(path, "use the new name in calls", "%s becomes %s, because names have only a-z A-Z 0-9 . _ -", clip(name), ours)
	}
	return ours
}

// ourName replaces what a name of ours cannot have.
func ourName(s string) string {
	out := strings.Map(func(r rune) rune {
		if quota.CheckName("", string(r)) != nil {
			return '-'
		}
		return r
	}, s)
	if out == "" {
		out = "-"
	}
	return out[:min(len(out), quota.MaxNameLen)]
}

// An envoyEntry is one descriptor on the way from the root to a limit.
type envoyEntry struct{ key, value string }

// taken reports whether the request says the value, which is then part of the
// key of ours.
func (e envoyEntry) taken() bool { return e.value == "" || strings.HasSuffix(e.value, "*") }

func (c *conversion) envoyList(namespace string, above []envoyEntry, p place) {
	if len(above) >= envoyMaxDepth {
		c.node(p.where(), p.path, "is more than %d levels deep; must be less", envoyMaxDepth)
		return
	}
	if p.value.Kind == yaml.SequenceNode && len(p.value.Content) == 0 {
		return
	}
	seen := map[envoyEntry]int{}
	c.list(p, quota.MaxLimits, "["+envoyExample+"]", func(item place) {
		var d envoyDescriptor
		faults := len(c.faults)
		if !c.object(item, envoyExample, c.envoyFields(&d)) {
			return
		}
		if line, twice := seen[d.envoyEntry]; twice && len(c.faults) == faults {
			c.node(item.where(), item.path, "has the key and value of line %d again; remove one", line)
			return
		}
		seen[d.envoyEntry] = item.where().Line
		way := append(slices.Clone(above), d.envoyEntry)
		switch {
		case d.rateLimit.value != nil && d.key != "":
			c.envoyLimit(namespace, way, &d, item)
		case d.below.value == nil:
			c.note(item.path, "", "has neither a rate_limit nor descriptors, so that it limits nothing; is not carried over")
		}
		if d.below.value != nil {
			c.envoyList(namespace, way, d.below)
		}
	})
	c.envoyExact(seen, p)
}

// envoyExact notes that of the limits of one key only the most exact counts.
func (c *conversion) envoyExact(seen map[envoyEntry]int, p place) {
	entries, open := map[string]int{}, map[string]bool{}
	for e := range seen {
		entries[e.key]++
		open[e.key] = open[e.key] || e.taken()
	}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if entries[key] > 1 && open[key] {
			c.note(p.path, "check only the limit of the value where there is one, then the first in the file whose beginning fits, else the one without a value",
				"there are limits for some values of %s and for all others", clip(key))
		}
	}
}

// envoyDescriptor is one descriptor of the source.
type envoyDescriptor struct {
	envoyEntry
	rateLimit, below place
	shadow           bool
}

func (c *conversion) envoyFields(d *envoyDescriptor) []field {
	var ignored bool
	flag := func(what, do string) func(place) {
		return func(p place) {
			if c.scalar(p, boolean(&ignored)) && ignored {
				c.note(p.path, do, "%s", what)
			}
		}
	}
	return []field{
		{"key", "key: remote_address", func(p place) { c.scalar(p, bounded(&d.key, 1, quota.MaxKeyLen)) }},
		{"value", "", func(p place) { c.scalar(p, bounded(&d.value, 1, quota.MaxKeyLen)) }},
		{"rate_limit", "", func(p place) { d.rateLimit = p }},
		{"descriptors", "", func(p place) { d.below = p }},
		{"shadow_mode", "", func(p place) { c.scalar(p, boolean(&d.shadow)) }},
		{"quota_mode", "", flag("refuses only when all limits of the mode are used up; is not carried over", "check these limits in calls of their own, and refuse when all do")},
		{"detailed_metric", "", flag("is not carried over; metrics are by limit", "look at the keys of the limit for more")},
		{"value_to_metric", "", flag("is not carried over; metrics are by limit", "look at the keys of the limit for more")},
		{"share_threshold", "", flag("counts all values together; is not carried over", "make it a limit of its own, and call it with the key *")},
		c.noted("metadata", "", "is not carried over"),
	}
}
