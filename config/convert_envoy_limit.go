package config

import (
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/descriptor"
	"github.com/quorate/quorate/internal/quota"
)

// envoyUnits are the units of rate limits, with their lengths in envoyproxy/ratelimit.
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

// envoyLimit makes the limit and the rule of one path through the tree.
func (c *conversion) envoyLimit(namespace string, way envoyWay, d *envoyDescriptor, v Value) {
	l := quota.Limit{LimitName: quota.LimitName{Namespace: namespace, Limit: c.envoyLimitName(namespace, way.steps, v)}}
	r := &descriptor.Rule{Steps: way.steps, Share: way.share, Metric: way.metric, Detailed: d.detailed, Shadow: d.shadow, Quota: d.quota}
	faults := len(c.faults)
	if !c.envoyRate(&l, r, d.rateLimit) || len(c.faults) > faults {
		return
	}
	if d.shadow {
		l.Enforcement = quota.Shadow
	}
	request, key := describeWay(way.steps)
	call := "call it with the key " + key
	if steps, ok := descriptor.Steps(l.LimitName.Limit); ok && slices.Equal(steps, way.steps) {
		call = "Envoy finds it by its name; others call it with the key " + key
	}
	if strings.Contains(key, "/") { // else a/b with c would give the same key as a with b/c
		call += ", in which a value's % is written as %25 and its / as %2F"
	}
	c.note(v.path, call, "requests with %s become checks of the limit %v", request, l.LimitName)
	c.envoyRule(r, v)
	c.keep(l, v)
}

// describeWay describes the requests that match a path, and returns the form of their key.
func describeWay(steps []descriptor.Step) (request, key string) {
	var parts []string
	for _, s := range steps {
		if !s.Exact() {
			parts = append(parts, "<"+s.Key+">")
		}
	}
	if len(parts) == 0 {
		parts = []string{quota.WholeKey}
	}
	return descriptor.Path(steps), strings.Join(parts, "/")
}

// envoyRate reads a rate_limit.
func (c *conversion) envoyRate(l *quota.Limit, r *descriptor.Rule, v Value) bool {
	var unit, requests int64
	var unlimited bool
	faults := len(c.faults)
	g, ok := v.Fields(envoyLimitExample, []Field{
		{"unit", "", func(v Value) { v.scalar(envoyUnit(&unit)) }},
		{"requests_per_unit", "", func(v Value) { v.scalar(whole(&requests, 0, 1<<32-1)) }},
		{"unlimited", "", func(v Value) { v.scalar(boolean(&unlimited)) }},
		{"name", "", func(v Value) {
			if v.scalar(bounded(&r.Name, 1, quota.MaxKeyLen)) {
				c.note(v.path, "", "is not carried over; the limit's own name is in answers and metrics")
			}
		}},
		{"replaces", "", func(v Value) { c.envoyReplaces(r, v) }},
	})
	if !ok || len(c.faults) > faults {
		return false
	}
	if at, there := g["replaces"]; there && r.Name != "" && slices.Contains(r.Replaces, r.Name) {
		at.faultAtName("has the limit's own name, %s; remove it", clip(r.Name))
		return false
	}
	if unlimited {
		r.Unlimited = true
		if g.any("unit") {
			g["unit"].faultAtName("is combined with unlimited; remove one of them")
			return false
		}
		if at, there := g["requests_per_unit"]; there {
			c.note(at.path, "", "has no effect with unlimited; is not carried over")
		}
		l.Class, l.Rate.Per = quota.Unlimited, time.Second
		return true
	}
	if !g.any("unit") {
		v.Missing("unit", "is missing; write unit: second")
		return false
	}
	u := envoyUnits[unit]
	l.SetFirst(quota.Window(quota.FixedWindow, requests, u.per))
	var err error
	if r.Limit, err = (quota.Inline{Kind: l.Kind, Rate: l.Rate, Burst: l.Burst}).Name(l.Namespace); err != nil {
		v.faultAtName("%v", err)
		return false
	}
	c.envoyLong(u.word, g["unit"])
	return true
}

// envoyLong notes units whose length differs from the calendar's.
func (c *conversion) envoyLong(word string, v Value) {
	what := map[string]string{
		"week":  "a week begins on Thursday, as in the original, because windows are aligned to the Unix epoch",
		"month": "a month is 30 days, as in the original",
		"year":  "a year is 365 days, as in the original",
	}[word]
	if what != "" {
		c.note(v.path, "write per: "+word+", window: calendar for a calendar period", "%s", what)
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

// envoyReplaces notes the limits that a limit replaces for the requests that match it.
func (c *conversion) envoyReplaces(r *descriptor.Rule, v Value) {
	var names []string
	ok := v.Items(quota.MaxLimits, "[{name: other}]", func(item Value) {
		var name string
		item.Fields("{name: other}", []Field{
			{"name", "name: other", func(v Value) { v.scalar(bounded(&name, 1, quota.MaxKeyLen)) }},
		})
		names, r.Replaces = append(names, clip(name)), append(r.Replaces, name)
	})
	if ok {
		c.note(v.path, "serve the file as it is (protocols.envoy_rls_config), or, where both match, check only this limit", "replaces the limits called %s; is not carried over", strings.Join(names, ", "))
	}
}
