package config

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// A draft is a limit as it stands in the file.
type draft struct {
	quota.Limit
	tier  tierText
	place place
	given given
}

// tierText is a tier as it stands in the file: which of the fields mean
// something depends on which are there.
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

// windowKinds are the words for window, the default first.
var windowKinds = []quota.Kind{quota.FixedWindow, quota.SlidingWindow, quota.CalendarWindow, quota.PeriodicRefill}

// tierFields are the fields of one tier; a limit of one tier has them itself.
func (l *limitFile) tierFields(t *tierText) []field {
	return []field{
		{"rate", "", func(p place) { l.scalar(p, rate(&t.rate)) }},
		{"burst", "", func(p place) { l.scalar(p, whole(&t.burst, 0, quota.MaxTokens)) }},
		{"limit", "", func(p place) { l.scalar(p, whole(&t.limit, 0, quota.MaxTokens)) }},
		{"per", "", func(p place) { l.scalar(p, text(&t.per, perWant)) }},
		{"window", "", func(p place) { l.scalar(p, oneOf(&t.kind, quota.Kind.String, windowKinds...)) }},
		{"timezone", "", func(p place) { l.scalar(p, timeZone(&t.zone)) }},
	}
}

func (l *limitFile) limitFields(d *draft) []field {
	return append(l.tierFields(&d.tier), []field{
		{"tiers", "", func(p place) { l.tiers(d, p) }},
		{"in_flight", "", func(p place) { l.scalar(p, whole(&d.Burst, 0, quota.MaxTokens)) }},
		{"unlimited", "", func(p place) { l.scalar(p, yes()) }},
		{"ban", "", func(p place) { l.scalar(p, yes()) }},
		{"ceiling", "", func(p place) { l.scalar(p, oneOf(&d.Ceiling, quota.Ceiling.String, quota.Soft, quota.Hard)) }},
		{"decide", "", func(p place) { l.scalar(p, oneOf(&d.Decide, quota.Decide.String, quota.Decides()...)) }},
		{"durable", "", func(p place) { l.scalar(p, boolean(&d.Durable)) }},
		{"max_cost", "", func(p place) { l.scalar(p, whole(&d.MaxCost, 1, quota.MaxTokens)) }},
		{"max_wait", "", func(p place) { l.scalar(p, pause(&d.MaxWait, 0)) }},
		{"max_debt", "", func(p place) { l.scalar(p, pause(&d.MaxDebt, 0)) }},
		{"lease", "", func(p place) { l.scalar(p, pause(&d.Lease, time.Millisecond)) }},
		{"parent", "", func(p place) { l.scalar(p, limitName(&d.Parent)) }},
		{"floor", "", func(p place) { l.floor(d, p) }},
		{"enforcement", "", func(p place) { l.enforcement(d, p) }},
		{"near", "", func(p place) { l.scalar(p, near(&d.Near)) }},
		{"when_cut_off", "", func(p place) { l.cutOff(&d.CutOff, p) }},
		{"match", "", func(p place) { l.match(d, p, "path") }},
	}...)
}

// templateFields are what only a template has besides.
func (l *limitFile) templateFields(d *draft) []field {
	return []field{
		{"max_keys", "", func(p place) { l.scalar(p, whole(&d.MaxKeys, 1, 1<<40)) }},
		{"idle", "", func(p place) { l.scalar(p, pause(&d.Idle, time.Second)) }},
	}
}

// text reads any text; it is looked at when all fields are known.
func text(to *string, want string) scalar {
	return scalar{want: want, set: func(text string) error {
		*to = text
		return nil
	}}
}

func (l *limitFile) floor(d *draft, p place) {
	given, ok := l.fieldsOf(p, "{rate: 1/s, burst: 2}", l.floorFields(d))
	if !ok || d.Floor.Per == 0 {
		return
	}
	if _, there := given["burst"]; !there {
		d.FloorBurst = l.burstFor(p, d.Floor)
	}
	if d.Floor.Tokens == 0 && d.FloorBurst == 0 {
		l.node(p.value, p.path, "is nothing; give it a rate above 0, or leave it out")
	}
}

func (l *limitFile) floorFields(d *draft) []field {
	return []field{
		{"rate", "rate: 1/s", func(p place) { l.scalar(p, rate(&d.Floor)) }},
		{"burst", "", func(p place) { l.scalar(p, whole(&d.FloorBurst, 0, quota.MaxTokens)) }},
	}
}

// enforcement is a word, or a map with the fraction that is enforced.
func (l *limitFile) enforcement(d *draft, p place) {
	mode := oneOf(&d.Enforcement, quota.Enforcement.String, quota.Enforcements()...)
	if !isMap(p) {
		mode.want += ", or a map such as {mode: enforce, fraction: 25%}"
		l.scalar(p, mode)
		return
	}
	l.object(p, "{mode: enforce, fraction: 25%}", l.enforcementFields(d))
}

func (l *limitFile) enforcementFields(d *draft) []field {
	return []field{
		{"mode", "", func(p place) {
			l.scalar(p, oneOf(&d.Enforcement, quota.Enforcement.String, quota.Enforcements()...))
		}},
		{"fraction", "", func(p place) { l.scalar(p, percent(&d.Fraction)) }},
	}
}

const cutOffExample = "{policy: share, after: 30s, then: closed}"

// cutOff is a policy's word, or a map that says also what follows it.
func (l *limitFile) cutOff(c *quota.CutOff, p place) {
	if !isMap(p) {
		s := oneOf(&c.Policy, quota.CutOffPolicy.String, quota.CutOffPolicies()...)
		s.want += ", or a map such as " + cutOffExample
		l.scalar(p, s)
		return
	}
	given, ok := l.fieldsOf(p, cutOffExample, l.cutOffFields(c))
	if !ok {
		return
	}
	l.notBoth(given, "policy", "rate")
	if !given.any("policy", "rate", "after", "then") {
		l.node(p.value, p.path, "says nothing; write a policy, such as %s", cutOffExample)
	}
	l.bothOrNone(p, given, "after", "then", "after: 30s", "then: closed")
}

func (l *limitFile) cutOffFields(c *quota.CutOff) []field {
	return []field{
		{"policy", "", func(p place) {
			l.scalar(p, oneOf(&c.Policy, quota.CutOffPolicy.String, quota.CutOffPolicies()...))
		}},
		{"rate", "", func(p place) { c.Policy = quota.CutOffRate; l.scalar(p, rate(&c.Rate)) }},
		{"after", "", func(p place) { l.scalar(p, pause(&c.After, time.Millisecond)) }},
		{"then", "", func(p place) { l.then(c, p) }},
	}
}

func (l *limitFile) then(c *quota.CutOff, p place) {
	if !isMap(p) {
		s := oneOf(&c.Then, quota.CutOffPolicy.String, quota.CutOffPolicies()...)
		s.want += ", or a rate such as {rate: 1/s}"
		l.scalar(p, s)
		return
	}
	c.Then = quota.CutOffRate
	l.object(p, "{rate: 1/s}", l.thenFields(c))
}

func (l *limitFile) thenFields(c *quota.CutOff) []field {
	return []field{{"rate", "rate: 1/s", func(p place) { l.scalar(p, rate(&c.ThenRate)) }}}
}

// match reads which requests a limit is for; pattern is what the path is called.
func (l *limitFile) match(d *draft, p place, pattern string) {
	var m quota.Match
	if l.object(p, "{methods: [GET], "+pattern+": /v1/*/items}", l.matchFields(&m, pattern)) {
		d.Match = &m
	}
}

const maxMethods = 32

func (l *limitFile) matchFields(m *quota.Match, pattern string) []field {
	return []field{
		{"methods", "", func(p place) {
			l.list(p, maxMethods, "[GET, HEAD]", func(item place) {
				var one string
				if !l.scalar(item, method(&one)) {
					return
				}
				if slices.Contains(m.Methods, one) {
					l.node(item.value, item.path, "is %s again; remove one", clip(one))
				}
				m.Methods = append(m.Methods, one)
			})
		}},
		{pattern, pattern + ": /v1/*/items", func(p place) { l.scalar(p, pathPattern(&m.Path)) }},
	}
}
