package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/phrase"
)

const (
	policyExample   = "{namespace: ci, name: default, type: builds, default: 10, limit: 10, refill: {units: 10, every: 1d}}"
	policiesExample = "[" + policyExample + "]"
	refillExample   = "{units: 10, every: 1d, offset: 0h}"
)

// ParsePolicies reads a file of policies for accounts. Its error is a *FileError with
// every fault, in which source names the file.
func ParsePolicies(source string, data []byte) (map[account.PolicyKey]account.Policy, error) {
	f := policyFile{policies: map[account.PolicyKey]account.Policy{}, lines: map[account.PolicyKey]int{}}
	err := ReadDocuments(source, data, "policies:", 1, func(v Value) {
		v.Fields("policies: "+policiesExample, []Field{
			{"version", "", func(v Value) { v.scalar(version()) }},
			{"policies", "policies: " + policiesExample, func(v Value) { v.Items(account.MaxPolicies, policiesExample, f.policy) }},
		})
	})
	if err != nil {
		return nil, err
	}
	return f.policies, nil
}

// policyFile decodes a file of policies.
type policyFile struct {
	policies map[account.PolicyKey]account.Policy
	lines    map[account.PolicyKey]int
}

func (f *policyFile) policy(v Value) {
	var k account.PolicyKey
	var one account.Policy
	faults := v.Faults()
	g, ok := v.Fields(policyExample, f.policyFields(&k, &one))
	if !ok || v.Faults() > faults {
		return
	}
	if err := cmp.Or(k.Validate(), one.Validate()); err != nil {
		f.invalid(v, g, err)
		return
	}
	if line, twice := f.lines[k]; twice {
		v.faultAtName("%s~%s~%s is a duplicate, first in line %d; remove one", k.Namespace, k.Name, k.Resource, line)
		return
	}
	f.lines[k], f.policies[k] = v.Line(), one
}

// invalid reports an error of package account about a policy, at the field that the error names.
func (f *policyFile) invalid(v Value, g Given, err error) {
	name, detail, _ := strings.Cut(inFileWords(err).Error(), ": ")
	outer, inner, nested := strings.Cut(name, ".")
	at, there := g[outer]
	if !there {
		at = Value{in: v.in, path: join(v.path, outer), node: v.at()}
	}
	if inner == "interval" {
		inner = "every"
	}
	if nested {
		at.path = join(at.path, inner)
	}
	at.Fault("%s", detail)
}

func (f *policyFile) policyFields(k *account.PolicyKey, one *account.Policy) []Field {
	return []Field{
		{"namespace", "", func(v Value) { v.scalar(bounded(&k.Namespace, 0, account.MaxAtom)) }},
		{"name", "name: default", func(v Value) { v.scalar(bounded(&k.Name, 1, account.MaxAtom)) }},
		{"type", "type: builds", func(v Value) { v.scalar(bounded(&k.Resource, 1, account.MaxAtom)) }},
		{"default", "default: 10, the balance of a new account", func(v Value) { v.scalar(whole(&one.Default, 0, account.Most)) }},
		{"limit", "limit: 10, the highest balance", func(v Value) { v.scalar(whole(&one.Limit, 0, account.Most)) }},
		{"refill", "", func(v Value) { f.refill(v, &one.Refill) }},
		{"lifetime", "", func(v Value) { v.scalar(lifetime(&one.Lifetime)) }},
		{"options", "", func(v Value) { f.options(v, &one.Options) }},
	}
}

func (f *policyFile) refill(v Value, to *account.Refill) {
	v.Fields(refillExample, []Field{
		{"units", "units: 10", func(v Value) { v.scalar(whole(&to.Units, -account.Most, account.Most)) }},
		{"every", "every: 1d", func(v Value) {
			v.scalar(ofDay(&to.Interval, "a time that divides a day, such as 1h, 6h or 1d, or 0s for always full", divides))
		}},
		{"offset", "", func(v Value) {
			v.scalar(ofDay(&to.Offset, "a time of the day after midnight UTC, such as 6h30m", func(time.Duration) bool { return true }))
		}},
	})
}

var policyOptions = []string{"absolute_resource"}

func (f *policyFile) options(v Value, to *account.PolicyOptions) {
	v.Items(len(policyOptions), "[absolute_resource]", func(item Value) {
		want := "absolute_resource"
		item.scalar(scalar{want: want, set: func(text string) error {
			if text != want {
				return Wrong(text, want)
			}
			*to |= account.AbsoluteResource
			return nil
		}})
	})
}

func divides(d time.Duration) bool { return d == 0 || 24*time.Hour%d == 0 }

// ofDay reads a duration of whole seconds, at most a day, that passes right.
func ofDay(to *uint32, want string, right func(time.Duration) bool) scalar {
	return parsed(to, want, func(text string) (uint32, bool) {
		d, err := parsePause(text)
		return uint32(d / time.Second), err == nil && d >= 0 && d <= 24*time.Hour && d%time.Second == 0 && right(d)
	})
}

// maxLifetime bounds the lifetime of unused accounts.
const maxLifetime = 36500 * 24 * time.Hour

func lifetime(to *time.Duration) scalar {
	return parsed(to, "a duration with its unit, above 0s and up to 36500d, such as 30d or 12h", func(text string) (time.Duration, bool) {
		d, err := parsePause(text)
		return d, err == nil && d > 0 && d <= maxLifetime
	})
}

// FormatPolicies writes policies as a file, sorted by key. ParsePolicies reads the same policies
// back.
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
		r.add("every", phrase.Days(time.Duration(p.Refill.Interval)*time.Second))
		if p.Refill.Offset > 0 {
			r.add("offset", phrase.Days(time.Duration(p.Refill.Offset)*time.Second))
		}
		n.set("refill", r)
	}
	if p.Lifetime > 0 {
		n.add("lifetime", phrase.Days(p.Lifetime))
	}
	if p.Options&account.AbsoluteResource != 0 {
		n.add("options", "[absolute_resource]")
	}
	return n
}
