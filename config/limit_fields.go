package config

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// A draft is a limit as written in the file.
type draft struct {
	quota.Limit
	tier  tierText
	value Value
	given Given
}

// tierText is a tier as written in the file. The meaning of a field depends on which others are
// given.
type tierText struct {
	rate  quota.Rate
	burst int64
	limit int64
	per   string
	kind  quota.Kind
	zone  *time.Location
}

func newTier() tierText { return tierText{kind: quota.FixedWindow} }

const tierExample = "{limit: 10, per: 1s}"

// tierFields returns the fields of a tier. A limit with one tier has them itself.
func (l *limitFile) tierFields(t *tierText) []Field {
	return []Field{
		{"rate", "", func(v Value) { v.scalar(rate(&t.rate)) }},
		{"burst", "", func(v Value) { v.scalar(whole(&t.burst, 0, quota.MaxTokens)) }},
		{"limit", "", func(v Value) { v.scalar(whole(&t.limit, 0, quota.MaxTokens)) }},
		{"per", "", func(v Value) { v.scalar(text(&t.per, perWant)) }},
		{"window", "", func(v Value) { v.scalar(oneOf(&t.kind, quota.Kind.String, quota.WindowKinds()...)) }},
		{"timezone", "", func(v Value) { v.scalar(timeZone(&t.zone)) }},
	}
}

func (l *limitFile) limitFields(d *draft) []Field {
	return append(l.tierFields(&d.tier), []Field{
		{"tiers", "", func(v Value) { l.tiers(d, v) }},
		{"in_flight", "", func(v Value) { v.scalar(whole(&d.Burst, 0, quota.MaxTokens)) }},
		{"unlimited", "", func(v Value) { v.scalar(onlyTrue()) }},
		{"ban", "", func(v Value) { v.scalar(onlyTrue()) }},
		{"ceiling", "", func(v Value) { v.scalar(oneOf(&d.Ceiling, quota.Ceiling.String, quota.Soft, quota.Hard)) }},
		{"decide", "", func(v Value) { v.scalar(oneOf(&d.Decide, quota.Decide.String, quota.Decides()...)) }},
		{"durable", "", func(v Value) { v.scalar(boolean(&d.Durable)) }},
		{"max_cost", "", func(v Value) { v.scalar(whole(&d.MaxCost, 1, quota.MaxTokens)) }},
		{"max_wait", "", func(v Value) { v.scalar(pause(&d.MaxWait, 0)) }},
		{"max_debt", "", func(v Value) { v.scalar(pause(&d.MaxDebt, 0)) }},
		{"lease", "", func(v Value) { v.scalar(pause(&d.Lease, time.Millisecond)) }},
		{"parent", "", func(v Value) { v.scalar(limitName(&d.Parent)) }},
		{"floor", "", func(v Value) { l.floor(d, v) }},
		{"enforcement", "", func(v Value) { l.enforcement(d, v) }},
		{"near", "", func(v Value) { v.scalar(near(&d.Near)) }},
		{"when_cut_off", "", func(v Value) { l.cutOff(&d.CutOff, v) }},
		{"match", "", func(v Value) { l.match(d, v, "path") }},
	}...)
}

// templateFields returns the extra fields of a template.
func (l *limitFile) templateFields(d *draft) []Field {
	return []Field{
		{"max_keys", "", func(v Value) { v.scalar(whole(&d.MaxKeys, 1, 1<<40)) }},
		{"idle", "", func(v Value) { v.scalar(pause(&d.Idle, time.Second)) }},
	}
}

// text reads any text; finish checks it once all fields are known.
func text(to *string, want string) scalar {
	return matching(to, want, func(string) bool { return true })
}

func (l *limitFile) floor(d *draft, v Value) {
	given, ok := v.Fields("{rate: 1/s, burst: 2}", l.floorFields(d))
	if !ok || d.Floor.Per == 0 {
		return
	}
	if _, there := given["burst"]; !there {
		d.FloorBurst = l.burstFor(v, d.Floor)
	}
	if d.Floor.Tokens == 0 && d.FloorBurst == 0 {
		v.Fault("is 0; give a rate above 0, or omit it")
	}
}

func (l *limitFile) floorFields(d *draft) []Field {
	return []Field{
		{"rate", "rate: 1/s", func(v Value) { v.scalar(rate(&d.Floor)) }},
		{"burst", "", func(v Value) { v.scalar(whole(&d.FloorBurst, 0, quota.MaxTokens)) }},
	}
}

// enforcement reads a word, or a map with the fraction of keys that is enforced.
func (l *limitFile) enforcement(d *draft, v Value) {
	mode := oneOf(&d.Enforcement, quota.Enforcement.String, quota.Enforcements()...)
	if !v.IsMap() {
		mode.want += ", or a map such as {mode: enforce, fraction: 25%}"
		v.scalar(mode)
		return
	}
	v.Fields("{mode: enforce, fraction: 25%}", l.enforcementFields(d))
}

func (l *limitFile) enforcementFields(d *draft) []Field {
	return []Field{
		{"mode", "", func(v Value) {
			v.scalar(oneOf(&d.Enforcement, quota.Enforcement.String, quota.Enforcements()...))
		}},
		{"fraction", "", func(v Value) { v.scalar(percent(&d.Fraction)) }},
	}
}

const cutOffExample = "{policy: share, after: 30s, then: closed}"

// cutOff reads the name of a policy, or a map that names the policy which follows after a time.
func (l *limitFile) cutOff(c *quota.CutOff, v Value) {
	if !v.IsMap() {
		s := oneOf(&c.Policy, quota.CutOffPolicy.String, quota.CutOffPolicies()...)
		s.want += ", or a map such as " + cutOffExample
		v.scalar(s)
		return
	}
	given, ok := v.Fields(cutOffExample, l.cutOffFields(c))
	if !ok {
		return
	}
	if given.any("policy") && given.any("rate") {
		both := slices.DeleteFunc(given.InOrder(), func(name string) bool { return name != "policy" && name != "rate" })
		given[both[1]].faultAtName("policy and rate cannot be combined; choose one")
	}
	if !given.any("policy", "rate", "after", "then") {
		v.Fault("is empty; write a policy, such as %s", cutOffExample)
	}
	switch after, then := given.any("after"), given.any("then"); {
	case after && !then:
		v.Missing("then", "is missing with after; write then: closed")
	case then && !after:
		v.Missing("after", "is missing with then; write after: 30s")
	}
}

func (l *limitFile) cutOffFields(c *quota.CutOff) []Field {
	return []Field{
		{"policy", "", func(v Value) {
			v.scalar(oneOf(&c.Policy, quota.CutOffPolicy.String, quota.CutOffPolicies()...))
		}},
		{"rate", "", func(v Value) { c.Policy = quota.CutOffRate; v.scalar(rate(&c.Rate)) }},
		{"after", "", func(v Value) { v.scalar(pause(&c.After, time.Millisecond)) }},
		{"then", "", func(v Value) { l.then(c, v) }},
	}
}

func (l *limitFile) then(c *quota.CutOff, v Value) {
	if !v.IsMap() {
		s := oneOf(&c.Then, quota.CutOffPolicy.String, quota.CutOffPolicies()...)
		s.want += ", or a rate such as {rate: 1/s}"
		v.scalar(s)
		return
	}
	c.Then = quota.CutOffRate
	v.Fields("{rate: 1/s}", l.thenFields(c))
}

func (l *limitFile) thenFields(c *quota.CutOff) []Field {
	return []Field{{"rate", "rate: 1/s", func(v Value) { v.scalar(rate(&c.ThenRate)) }}}
}

// match reads which HTTP requests a limit applies to; pattern is the name of the field for the
// path.
func (l *limitFile) match(d *draft, v Value, pattern string) {
	var m quota.Match
	if _, ok := v.Fields("{methods: [GET], "+pattern+": /v1/*/items}", l.matchFields(&m, pattern)); ok {
		d.Match = &m
	}
}

const maxMethods = 32

func (l *limitFile) matchFields(m *quota.Match, pattern string) []Field {
	return []Field{
		{"methods", "", func(v Value) {
			v.Items(maxMethods, "[GET, HEAD]", func(item Value) {
				var one string
				if !item.scalar(matching(&one, "an HTTP method in upper case, such as GET", methodForm.MatchString)) {
					return
				}
				if slices.Contains(m.Methods, one) {
					item.Fault("repeats %s; remove one", clip(one))
				}
				m.Methods = append(m.Methods, one)
			})
		}},
		{pattern, pattern + ": /v1/*/items", func(v Value) { v.scalar(pathPattern(&m.Path)) }},
	}
}
