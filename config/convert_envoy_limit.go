package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// envoyUnits are the units of rate limits; month and year are as long there.
var envoyUnits = []struct {
	word string
	per  time.Duration
}{
	{"second", time.Second},
	{"minute", time.Minute},
	{"hour", time.Hour},
	{"day", 24 * time.Hour},
	{"week", 7 * 24 * time.Hour},
	{"month", 30 * 24 * time.Hour},
	{"year", 365 * 24 * time.Hour},
}

// envoyLimit makes the limit of one path through the tree.
func (c *conversion) envoyLimit(namespace string, way []envoyEntry, d *envoyDescriptor, p place) {
	l := quota.Limit{LimitName: quota.LimitName{Namespace: namespace, Limit: c.envoyLimitName(namespace, way, p)}}
	faults := len(c.faults)
	if !c.envoyRate(&l, d.rateLimit) || len(c.faults) > faults {
		return
	}
	if d.shadow {
		l.Enforcement = quota.Shadow
	}
	request, key := describeWay(way)
	call := "call it with the key " + key
	if strings.Contains(key, "/") { // or a/b beside c would be a beside b/c
		call += ", in which a value's % is written as %25 and its / as %2F"
	}
	c.note(p.path, call, "requests with %s become checks of the limit %v", request, l.LimitName)
	c.keep(l, p)
}

// envoyLimitName joins keys and values, and makes the name unique.
func (c *conversion) envoyLimitName(namespace string, way []envoyEntry, p place) string {
	var words []string
	for _, e := range way {
		words = append(words, e.key)
		if e.value != "" {
			words = append(words, strings.TrimSuffix(e.value, "*"))
		}
	}
	name := ourName(strings.TrimRight(strings.Join(words, "."), "."))
	liked := quota.LimitName{Namespace: namespace, Limit: name}
	for unique := name; ; {
		if _, taken := c.drafts[quota.LimitName{Namespace: namespace, Limit: unique}]; !taken {
			if unique != name {
				c.note(p.path, "use the new name in calls", "another limit is called %s already, so this one is %s", name, unique)
			}
			return unique
		}
		c.twins[liked]++
		suffix := fmt.Sprintf("-%d", c.twins[liked]+1)
		unique = name[:min(len(name), quota.MaxNameLen-len(suffix))] + suffix
	}
}

// describeWay says which requests a path is for, and the key that they have.
func describeWay(way []envoyEntry) (request, key string) {
	var entries, parts []string
	for _, e := range way {
		if e.value == "" {
			entries = append(entries, e.key)
		} else {
			entries = append(entries, e.key+"="+e.value)
		}
		if e.taken() {
			parts = append(parts, "<"+e.key+">")
		}
	}
	if len(parts) == 0 {
		parts = []string{quota.WholeKey}
	}
	return strings.Join(entries, ", "), strings.Join(parts, "/")
}

// envoyRate reads a rate_limit.
func (c *conversion) envoyRate(l *quota.Limit, p place) bool {
	var unit, requests int64
	var unlimited bool
	faults := len(c.faults)
	g, ok := c.fieldsOf(p, envoyLimitExample, []field{
		{"unit", "", func(p place) { c.scalar(p, envoyUnit(&unit)) }},
		{"requests_per_unit", "", func(p place) { c.scalar(p, whole(&requests, 0, 1<<32-1)) }},
		{"unlimited", "", func(p place) { c.scalar(p, boolean(&unlimited)) }},
		c.noted("name", "", "is not carried over; the limit's own name is in answers and metrics"),
		{"replaces", "", c.envoyReplaces},
	})
	if !ok || len(c.faults) > faults {
		return false
	}
	if unlimited {
		if g.any("unit") {
			c.node(g["unit"].where(), g["unit"].path, "stands beside unlimited; remove one of them")
			return false
		}
		if at, there := g["requests_per_unit"]; there {
			c.note(at.path, "", "means nothing beside unlimited; is not carried over")
		}
		l.Class, l.Rate.Per = quota.Unlimited, time.Second
		return true
	}
	if !g.any("unit") {
		c.node(p.where(), join(p.path, "unit"), "is missing; write unit: second")
		return false
	}
	u := envoyUnits[unit]
	l.SetFirst(quota.Window(quota.FixedWindow, requests, u.per))
	c.envoyLong(u.word, g["unit"])
	return true
}

// envoyLong notes units that the calendar has otherwise.
func (c *conversion) envoyLong(word string, p place) {
	what := map[string]string{
		"week":  "a week begins on Thursday, as there, because windows are aligned to the Unix epoch",
		"month": "a month is 30 days, as there",
		"year":  "a year is 365 days, as there",
	}[word]
	if what != "" {
		c.note(p.path, "write per: "+word+", window: calendar if that of the calendar is meant", "%s", what)
	}
}

func envoyUnit(to *int64) scalar {
	var words []string
	for _, u := range envoyUnits {
		words = append(words, u.word)
	}
	s := oneOf(to, func(i int64) string { return words[i] }, 0, 1, 2, 3, 4, 5, 6)
	set := s.set
	s.set = func(text string) error { return set(strings.ToLower(text)) }
	return s
}

// envoyReplaces notes which limits a limit replaces for the requests that it
// is for.
func (c *conversion) envoyReplaces(p place) {
	var names []string
	ok := c.list(p, quota.MaxLimits, "[{name: other}]", func(item place) {
		var name string
		c.object(item, "{name: other}", []field{
			{"name", "name: other", func(p place) { c.scalar(p, bounded(&name, 1, quota.MaxKeyLen)) }},
		})
		names = append(names, clip(name))
	})
	if ok {
		c.note(p.path, "where both match, check only this limit", "replaces the limits called %s; is not carried over", strings.Join(names, ", "))
	}
}
