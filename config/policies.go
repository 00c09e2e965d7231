package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/account"
)

const (
	policyExample   = "{namespace: ci, name: default, type: builds, default: 10, limit: 10, refill: {units: 10, every: 1d}}"
	policiesExample = "[" + policyExample + "]"
	refillExample   = "{units: 10, every: 1d, offset: 0h}"
)

// ParsePolicies reads a file of policies for accounts. Its error is a *FileError with
// every fault; source is what that calls the file.
func ParsePolicies(source string, data []byte) (map[account.PolicyKey]account.Policy, error) {
	r := &report{source: source, data: data}
	f := policyFile{decoder: decoder{r}, policies: map[account.PolicyKey]account.Policy{}, lines: map[account.PolicyKey]int{}}
	if root := r.root("policies:"); root != nil {
		f.object(place{value: root}, "policies: "+policiesExample, []field{
			{"version", "", func(p place) { f.scalar(p, version()) }},
			{"policies", "policies: " + policiesExample, func(p place) { f.list(p, account.MaxPolicies, policiesExample, f.policy) }},
		})
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return f.policies, nil
}

// policyFile decodes a file of policies.
type policyFile struct {
	decoder
	policies map[account.PolicyKey]account.Policy
	lines    map[account.PolicyKey]int
}

func (f *policyFile) policy(p place) {
	var k account.PolicyKey
	var one account.Policy
	faults := len(f.faults)
	g, ok := f.fieldsOf(p, policyExample, f.policyFields(&k, &one))
	if !ok || len(f.faults) > faults {
		return
	}
	if err := cmp.Or(k.Validate(), one.Validate()); err != nil {
		f.invalid(p, g, err)
		return
	}
	if line, twice := f.lines[k]; twice {
		f.node(p.where(), p.path, "%s~%s~%s is there twice, first in line %d; remove one", k.Namespace, k.Name, k.Resource, line)
		return
	}
	f.lines[k], f.policies[k] = p.where().Line, one
}

// invalid reports what package account says of a policy, at the field that it names.
func (f *policyFile) invalid(p place, g given, err error) {
	name, detail, _ := strings.Cut(inFileWords(err).Error(), ": ")
	outer, inner, nested := strings.Cut(name, ".")
	at, there := g[outer]
	if !there {
		at = place{path: join(p.path, outer), value: p.where()}
	}
	if inner == "interval" {
		inner = "every"
	}
	if nested {
		at.path = join(at.path, inner)
	}
	f.node(at.value, at.path, "%s", detail)
}

func (f *policyFile) policyFields(k *account.PolicyKey, one *account.Policy) []field {
	return []field{
		{"namespace", "", func(p place) { f.scalar(p, bounded(&k.Namespace, 0, account.MaxAtom)) }},
		{"name", "name: default", func(p place) { f.scalar(p, bounded(&k.Name, 1, account.MaxAtom)) }},
		{"type", "type: builds", func(p place) { f.scalar(p, bounded(&k.Resource, 1, account.MaxAtom)) }},
		{"default", "default: 10, what a new account has", func(p place) { f.scalar(p, whole(&one.Default, 0, account.Most)) }},
		{"limit", "limit: 10, the most that it can have", func(p place) { f.scalar(p, whole(&one.Limit, 0, account.Most)) }},
		{"refill", "", func(p place) { f.refill(p, &one.Refill) }},
		{"lifetime", "", func(p place) { f.scalar(p, lifetime(&one.Lifetime)) }},
		{"options", "", func(p place) { f.options(p, &one.Options) }},
	}
}

func (f *policyFile) refill(p place, to *account.Refill) {
	f.object(p, refillExample, []field{
		{"units", "units: 10", func(p place) { f.scalar(p, whole(&to.Units, -account.Most, account.Most)) }},
		{"every", "every: 1d", func(p place) {
			f.scalar(p, ofDay(&to.Interval, "a time that divides a day, such as 1h, 6h or 1d, or 0s for always full", divides))
		}},
		{"offset", "", func(p place) {
			f.scalar(p, ofDay(&to.Offset, "a time of the day after midnight UTC, such as 6h30m", anyTime))
		}},
	})
}

var policyOptions = []string{"absolute_resource"}

func (f *policyFile) options(p place, to *account.PolicyOptions) {
	f.list(p, len(policyOptions), "[absolute_resource]", func(item place) {
		want := "absolute_resource"
		f.scalar(item, scalar{want: want, set: func(text string) error {
			if text != want {
				return wrong(text, want)
			}
			*to |= account.AbsoluteResource
			return nil
		}})
	})
}

func divides(d time.Duration) bool { return d == 0 || 24*time.Hour%d == 0 }

func anyTime(time.Duration) bool { return true }

// ofDay reads whole seconds, at most a day, that are right.
func ofDay(to *uint32, want string, right func(time.Duration) bool) scalar {
	return scalar{want: want, set: func(text string) error {
		d, err := parseLong(text)
		if err != nil || d < 0 || d > 24*time.Hour || d%time.Second != 0 || !right(d) {
			return wrong(text, want)
		}
		*to = uint32(d / time.Second)
		return nil
	}}
}

// maxLifetime bounds how long files say that accounts last unused.
const maxLifetime = 36500 * 24 * time.Hour

func lifetime(to *time.Duration) scalar {
	want := "a duration with its unit, above 0s and up to 36500d, such as 30d or 12h"
	return scalar{want: want, set: func(text string) error {
		d, err := parseLong(text)
		if err != nil || d <= 0 || d > maxLifetime {
			return wrong(text, want)
		}
		*to = d
		return nil
	}}
}

// parseLong is parsePause for days and weeks without end.
func parseLong(text string) (time.Duration, error) {
	for suffix, days := range map[string]int64{"d": 1, "w": 7} {
		digits, ok := strings.CutSuffix(text, suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 32)
		if err != nil || n > math.MaxInt64/uint64(days*int64(24*time.Hour)) {
			return 0, fmt.Errorf("too long")
		}
		return time.Duration(n) * time.Duration(days) * 24 * time.Hour, nil
	}
	return time.ParseDuration(text)
}

// formatLong writes what parseLong reads.
func formatLong(d time.Duration) string {
	if days := d / (24 * time.Hour); d > 0 && d%(24*time.Hour) == 0 {
		return strconv.FormatInt(int64(days), 10) + "d"
	}
	return short(d)
}

// FormatPolicies writes policies as a file, sorted by key. ParsePolicies reads the
// same back.
func FormatPolicies(policies map[account.PolicyKey]account.Policy) []byte {
	keys := make([]account.PolicyKey, 0, len(policies))
	for k := range policies {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b account.PolicyKey) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Resource, b.Resource))
	})
	list := &node{open: true, list: true}
	for _, k := range keys {
		list.items = append(list.items, policyNode(k, policies[k]))
	}
	root := newDocument()
	root.set("policies", list)
	return root.document()
}

func policyNode(k account.PolicyKey, p account.Policy) *node {
	n := &node{}
	if k.Namespace != "" {
		n.add("namespace", yamlText(k.Namespace))
	}
	n.add("name", yamlText(k.Name))
	n.add("type", yamlText(k.Resource))
	n.add("default", strconv.FormatInt(p.Default, 10))
	n.add("limit", strconv.FormatInt(p.Limit, 10))
	if p.Refill != (account.Refill{}) {
		r := &node{}
		r.add("units", strconv.FormatInt(p.Refill.Units, 10))
		r.add("every", formatLong(time.Duration(p.Refill.Interval)*time.Second))
		if p.Refill.Offset > 0 {
			r.add("offset", formatLong(time.Duration(p.Refill.Offset)*time.Second))
		}
		n.set("refill", r)
	}
	if p.Lifetime > 0 {
		n.add("lifetime", formatLong(p.Lifetime))
	}
	if p.Options&account.AbsoluteResource != 0 {
		n.add("options", "[absolute_resource]")
	}
	return n
}
