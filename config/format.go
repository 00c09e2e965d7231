package config

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/zone"
)

// FormatLimits writes limits as a limit file, sorted by name, each on one line if it fits. It
// leaves out fields at their default, except ceiling, and fields without a meaning, such as the
// rate of an unlimited limit. ParseLimits reads the same limits back, as long as the text stays
// within MaxFileBytes (some 70,000 limits).
func FormatLimits(limits []quota.Limit) []byte {
	sorted := slices.Clone(limits)
	slices.SortStableFunc(sorted, compareLimits)
	root := newDocument()
	isGlobal := func(l quota.Limit) bool { return l.LimitName == quota.Global }
	if i := slices.IndexFunc(sorted, isGlobal); i >= 0 {
		root.set("global_default", limitNode(&sorted[i]))
		sorted = slices.DeleteFunc(sorted, isGlobal)
	}
	if len(sorted) > 0 || len(limits) == 0 {
		root.set("namespaces", namespacesNode(sorted))
	}
	return root.document()
}

// newDocument returns the root of a file, with the format version.
func newDocument() *node {
	root := &node{}
	root.add("version", strconv.Itoa(FormatVersion))
	return root
}

// document returns the text of the file with root n.
func (n *node) document() []byte {
	var b bytes.Buffer
	n.block(&b, 0)
	return b.Bytes()
}

// FormatLimit writes one limit as in a limit file, on one line.
func FormatLimit(l quota.Limit) string { return limitNode(&l).flow() }

func namespacesNode(sorted []quota.Limit) *node {
	namespaces := &node{open: len(sorted) > 0}
	var section, named *node
	for i := range sorted {
		l := &sorted[i]
		if i == 0 || l.Namespace != sorted[i-1].Namespace {
			section, named = &node{open: true}, &node{open: true}
			namespaces.set(l.Namespace, section)
		}
		if l.Limit == quota.Default || l.Limit == quota.Template {
			above := len(section.fields)
			if len(named.fields) > 0 {
				above-- // also where a name sorts before them
			}
			section.fields = slices.Insert(section.fields, above, pair{l.Limit[1:], limitNode(l)})
			continue
		}
		if len(named.fields) == 0 {
			section.set("limits", named)
		}
		named.set(l.Limit, limitNode(l))
	}
	return namespaces
}

// limitNode returns the map of one limit, with its fields in the order of limitFields.
func limitNode(l *quota.Limit) *node {
	n := &node{}
	switch {
	case l.Class == quota.Unlimited:
		n.add("unlimited", "true")
	case l.Class == quota.Banned:
		n.add("ban", "true")
	case l.Kind == quota.Concurrency:
		n.add("in_flight", strconv.FormatInt(l.Burst, 10))
	case len(l.More) > 0:
		tiers := &node{}
		for _, t := range l.Tiers() {
			tiers.items = append(tiers.items, tierFieldsOf(&node{}, &t))
		}
		n.set("tiers", tiers)
	default:
		first := l.First()
		tierFieldsOf(n, &first)
	}
	if l.Class == quota.Counted {
		countedFields(n, l)
	}
	n.addEnforcement(l)
	if l.Match != nil {
		n.set("match", matchNode(l.Match))
	}
	if l.Limit == quota.Template {
		if l.MaxKeys != 0 {
			n.add("max_keys", strconv.FormatInt(l.MaxKeys, 10))
		}
		if l.Idle != 0 {
			n.add("idle", formatPause(l.Idle))
		}
	}
	return n
}

// tierFieldsOf adds a tier's fields to a map.
func tierFieldsOf(n *node, t *quota.Tier) *node {
	if t.Kind == quota.TokenBucket {
		return bucketFields(n, t.Rate, t.Burst)
	}
	n.add("limit", strconv.FormatInt(t.Burst, 10))
	if t.Kind != quota.CalendarWindow {
		n.add("per", formatPause(t.Rate.Per))
		if t.Kind != quota.FixedWindow {
			n.add("window", t.Kind.String())
		}
		return n
	}
	n.add("per", t.Calendar.Unit.String())
	n.add("window", t.Kind.String())
	if t.Calendar.Zone != nil {
		n.add("timezone", zone.Name(t.Calendar.Zone))
	}
	return n
}

func bucketFields(n *node, r quota.Rate, burst int64) *node {
	n.add("rate", formatRate(r))
	n.add("burst", strconv.FormatInt(burst, 10))
	return n
}

func formatRate(r quota.Rate) string { return phrase.TrimZeros(r.String()) }

func countedFields(n *node, l *quota.Limit) {
	n.add("ceiling", l.Ceiling.String())
	if l.Decide != quota.DecideDefault {
		n.add("decide", l.Decide.String())
	}
	if l.Durable {
		n.add("durable", "true")
	}
	if l.MaxCost != 0 {
		n.add("max_cost", strconv.FormatInt(l.MaxCost, 10))
	}
	for _, p := range []struct {
		name string
		text string
	}{{"max_wait", formatPause(l.MaxWait)}, {"max_debt", formatPause(l.MaxDebt)}, {"lease", formatPause(l.Lease)}} {
		if p.text != formatPause(0) {
			n.add(p.name, p.text)
		}
	}
	if l.Parent != "" {
		n.add("parent", yamlText(l.Parent))
	}
	if l.Floor.Tokens > 0 || l.FloorBurst > 0 {
		n.set("floor", bucketFields(&node{}, l.Floor, l.FloorBurst))
	}
	if l.Near != 0 {
		n.add("near", strconv.FormatInt(l.Near, 10)+"%")
	}
	n.addCutOff(l)
}

func (n *node) addEnforcement(l *quota.Limit) {
	switch {
	case l.Fraction != 0:
		m := &node{}
		m.add("mode", l.Enforcement.String())
		m.add("fraction", formatParts(l.Fraction, quota.Million/100)+"%")
		n.set("enforcement", m)
	case l.Enforcement != quota.Enforce:
		n.add("enforcement", l.Enforcement.String())
	}
}

func (n *node) addCutOff(l *quota.Limit) {
	c := l.CutOff
	switch {
	case c.After == 0 && c.Policy == quota.CutOffDefault:
		return
	case c.After == 0 && c.Policy != quota.CutOffRate:
		n.add("when_cut_off", c.Policy.String())
		return
	}
	m := &node{}
	switch c.Policy {
	case quota.CutOffDefault:
	case quota.CutOffRate:
		m.add("rate", formatRate(c.Rate))
	default:
		m.add("policy", c.Policy.String())
	}
	if c.After > 0 {
		then, rate := c.At(c.After, l.Ceiling)
		m.add("after", formatPause(c.After))
		if then == quota.CutOffRate {
			r := &node{}
			r.add("rate", formatRate(rate))
			m.set("then", r)
		} else {
			m.add("then", then.String())
		}
	}
	n.set("when_cut_off", m)
}

func matchNode(m *quota.Match) *node {
	n := &node{}
	if len(m.Methods) > 0 {
		methods := &node{}
		for _, method := range m.Methods {
			methods.items = append(methods.items, &node{text: yamlText(method)})
		}
		n.set("methods", methods)
	}
	n.add("path", yamlText(m.Path))
	return n
}
