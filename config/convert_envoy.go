package config

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/quorate/quorate/internal/descriptor"
	"github.com/quorate/quorate/internal/quota"
)

const (
	envoyExample      = "{key: remote_address, rate_limit: {unit: second, requests_per_unit: 10}}"
	envoyLimitExample = "{unit: second, requests_per_unit: 10}"
	envoyMaxDepth     = descriptor.MaxEntries
)

// ParseEnvoyRateLimits reads a file of envoyproxy/ratelimit, where every document is a domain, and
// returns rules that a node can serve unchanged. Its error is a *FileError with every fault, in
// which source names the file.
func ParseEnvoyRateLimits(source string, data []byte) ([]descriptor.Domain, error) {
	r := &report{source: source, data: data}
	var out []descriptor.Domain
	first := map[string]int{} // lines of namespaces
	r.documents("domain: web", maxEnvoyDomains, func(root Value) {
		c := newConversion(r)
		c.envoy(root)
		if c.domain.Name == "" {
			return
		}
		ns := descriptor.Namespace(c.domain.Name)
		if line, twice := first[ns]; twice {
			r.faultAt(root.node, "domain", "%s is the namespace %s, as that of line %d is; give it another name", clip(c.domain.Name), ns, line)
		}
		first[ns] = root.Line()
		c.domain.File = source
		out = append(out, c.domain)
	})
	if err := r.err(); err != nil {
		return nil, err
	}
	return out, nil
}

// maxEnvoyDomains bounds the domains of one file.
const maxEnvoyDomains = 1000

// envoy converts a domain and its tree of descriptors: each descriptor with a rate_limit becomes a
// limit and a rule.
func (c *conversion) envoy(v Value) {
	var name string
	var descriptors Value
	_, ok := v.Fields("domain: web", []Field{
		{"domain", "domain: web", func(v Value) { v.scalar(bounded(&name, 1, quota.MaxKeyLen)) }},
		{"descriptors", "", func(v Value) { descriptors = v }},
	})
	if !ok {
		return
	}
	c.domain = descriptor.Domain{Name: name, Tree: &descriptor.Tree{}}
	namespace := descriptor.Namespace(name)
	if namespace != name {
		c.note(join(v.path, "domain"), "use the new name in calls, Envoy's excepted", "%s becomes %s, because names have only a-z A-Z 0-9 . _ -", clip(name), namespace)
	}
	if descriptors.node != nil {
		c.envoyList(namespace, envoyWay{}, descriptors)
	}
}

// envoyWay is the path from the root to a descriptor, with the options of each step.
type envoyWay struct {
	steps         []descriptor.Step
	share, metric []bool
}

func (c *conversion) envoyList(namespace string, above envoyWay, v Value) {
	if len(above.steps) >= envoyMaxDepth {
		v.faultAtName("is more than %d levels deep; must be less", envoyMaxDepth)
		return
	}
	if v.node.Kind == yaml.SequenceNode && len(v.node.Content) == 0 {
		return
	}
	seen := map[descriptor.Step]int{} // line of each step
	patterns := &descriptor.Tree{}
	v.Items(quota.MaxLimits, "["+envoyExample+"]", func(item Value) {
		var d envoyDescriptor
		faults := len(c.faults)
		if _, ok := item.Fields(envoyExample, c.envoyFields(&d)); !ok {
			return
		}
		step := descriptor.Step{Key: d.key, Value: d.value}
		if line, twice := seen[step]; twice && len(c.faults) == faults {
			item.faultAtName("repeats the key and value of line %d; remove one", line)
			return
		}
		seen[step] = item.Line()
		if step.Pattern() {
			patterns.Touch([]descriptor.Step{step})
		}
		if d.share && !step.Pattern() {
			item.Missing("share_threshold", "is only for a value with *; remove it, or write value: %s", clip(d.value+"*"))
		}
		way := envoyWay{
			steps:  append(slices.Clone(above.steps), descriptor.Step{Key: d.key, Value: d.value}),
			share:  append(slices.Clone(above.share), d.share),
			metric: append(slices.Clone(above.metric), d.metric),
		}
		if d.key != "" {
			c.envoyOne(namespace, way, &d, item)
		}
		if d.below.node != nil {
			c.envoyList(namespace, way, d.below)
		}
	})
	c.envoyExact(seen, v)
	c.envoyOrder(v, patterns)
}

// envoyOne makes the rule and the limit of one descriptor. A descriptor with only nested
// descriptors gets neither. An empty one gets a limit that is off, because it takes precedence over
// less specific descriptors.
func (c *conversion) envoyOne(namespace string, way envoyWay, d *envoyDescriptor, v Value) {
	switch {
	case d.rateLimit.node != nil:
		c.envoyLimit(namespace, way, d, v)
	case d.below.node == nil || len(d.below.node.Content) == 0:
		l := quota.Limit{LimitName: quota.LimitName{Namespace: namespace, Limit: c.envoyLimitName(namespace, way.steps, v)}, Class: quota.Unlimited, Enforcement: quota.Off}
		l.Rate.Per = time.Second
		c.note(v.path, "", "has neither a rate_limit nor descriptors; becomes the limit %v, which is off and takes precedence over less specific ones", l.LimitName)
		c.envoyRule(&descriptor.Rule{Steps: way.steps}, v)
		c.keep(l, v)
	default:
		c.domain.Tree.Touch(way.steps)
	}
}

// envoyRule adds a rule to the tree. envoyList has already reported duplicates.
func (c *conversion) envoyRule(r *descriptor.Rule, v Value) {
	if err := c.domain.Tree.Add(r); err != nil && len(c.faults) == 0 {
		v.faultAtName("%v; remove one", err)
	}
}

// envoyExact notes that only the most specific limit of a key applies.
func (c *conversion) envoyExact(seen map[descriptor.Step]int, v Value) {
	entries, open := map[string]int{}, map[string]bool{}
	for s := range seen {
		entries[s.Key]++
		open[s.Key] = open[s.Key] || !s.Exact()
	}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if entries[key] > 1 && open[key] {
			c.note(v.path, "check only the limit of the value if it has one, then the first whose value with a * fits, else the one without a value; Envoy's descriptors do",
				"there are limits for some values of %s and for all others", clip(key))
		}
	}
}

// envoyOrder notes where the file relies on the order of patterns: limits have no order, and the
// pattern with the most literal bytes applies.
func (c *conversion) envoyOrder(v Value, patterns *descriptor.Tree) {
	before := patterns.Patterns()
	patterns.Sort()
	after := patterns.Patterns()
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if !slices.Equal(before[key], after[key]) {
			c.note(v.path, "see whether another limit counts then; or serve the file as it is (protocols.envoy_rls_config)",
				"the values of %s with a * are tried in the order %s", clip(key), strings.Join(after[key], ", "))
		}
	}
}

// envoyDescriptor is one descriptor of the source.
type envoyDescriptor struct {
	key, value                             string
	rateLimit, below                       Value
	shadow, quota, detailed, metric, share bool
}

func (c *conversion) envoyFields(d *envoyDescriptor) []Field {
	flag := func(to *bool, what, do string) func(Value) {
		return func(v Value) {
			if v.scalar(boolean(to)) && *to {
				c.note(v.path, do, "%s", what)
			}
		}
	}
	return []Field{
		{"key", "key: remote_address", func(v Value) { v.scalar(bounded(&d.key, 1, quota.MaxKeyLen)) }},
		{"value", "", func(v Value) { v.scalar(bounded(&d.value, 0, quota.MaxKeyLen)) }},
		{"rate_limit", "", func(v Value) { d.rateLimit = v }},
		{"descriptors", "", func(v Value) { d.below = v }},
		{"shadow_mode", "", func(v Value) { v.scalar(boolean(&d.shadow)) }},
		{"quota_mode", "", flag(&d.quota, "refuses only when all limits of the mode are used up; is not carried over", "serve the file as it is (protocols.envoy_rls_config), or check these limits in separate calls, and refuse when all do")},
		{"detailed_metric", "", flag(&d.detailed, "is not carried over; metrics are by limit", "look at the keys of the limit for more")},
		{"value_to_metric", "", flag(&d.metric, "is not carried over; metrics are by limit", "look at the keys of the limit for more")},
		{"share_threshold", "", flag(&d.share, "counts all values together; is not carried over", "serve the file as it is (protocols.envoy_rls_config), or make it a separate limit, and call it with the key *")},
		c.noted("metadata", "", "is not carried over"),
	}
}

// envoyLimitName returns the name under which descriptors find the limit. If that name is too long,
// it returns a name with a hash, which no descriptor finds.
func (c *conversion) envoyLimitName(namespace string, steps []descriptor.Step, v Value) string {
	name, err := descriptor.NameOf(steps)
	if err == nil {
		return name
	}
	sum := sha256.Sum256([]byte(descriptor.Path(steps)))
	first := descriptor.Namespace(steps[0].Key) // a limit name may contain all characters of a namespace
	name = fmt.Sprintf("%s-%x-", first[:min(len(first), 32)], sum[:8])
	c.note(v.path, "serve the file as it is (protocols.envoy_rls_config), or call the limit by this name",
		"descriptors do not find the limit %s/%s by its name: the one that they look for would have more than %d bytes", namespace, name, quota.MaxNameLen)
	return name
}
