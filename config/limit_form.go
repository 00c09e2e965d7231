package config

import (
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/quorate/quorate/internal/quota"
)

// given are the fields that a map has, by name.
type given map[string]place

func (g given) any(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, ok := g[name]; return ok })
}

// fieldsOf reads a map of known fields and returns those that are there,
// misspelt ones under the name that was meant.
func (d decoder) fieldsOf(p place, example string, fields []field) (given, bool) {
	there := given{}
	ok := d.objectOf(p, example, fields, func(name string, item place) {
		if _, twice := there[name]; !twice {
			there[name] = item
		}
	})
	return there, ok
}

func isMap(p place) bool { return p.value.Kind == yaml.MappingNode }

// A form is one of the ways to say what a limit counts.
type form struct {
	main   string   // the field that chooses it
	fields []string // all its fields
	what   string
}

// forms are the ways to say what a limit counts, of which it chooses one.
var forms = []form{
	{"rate", []string{"rate", "burst"}, "rate and burst (a token bucket)"},
	{"limit", []string{"limit", "per", "window", "timezone"}, "limit and per (a window)"},
	{"tiers", []string{"tiers"}, "tiers (several of these)"},
	{"in_flight", []string{"in_flight"}, "in_flight (concurrency)"},
	{"unlimited", []string{"unlimited"}, "unlimited: true"},
	{"ban", []string{"ban"}, "ban: true"},
}

// notCounting are the fields that may stand beside unlimited and ban.
var notCounting = []string{"unlimited", "ban", "enforcement", "match", "max_keys", "idle"}

func choices(forms []form) string {
	var out []string
	for _, f := range forms {
		out = append(out, f.what)
	}
	last := len(out) - 1
	if last == 0 {
		return out[0]
	}
	return strings.Join(out[:last], ", ") + " and " + out[last]
}

// choose returns the form that comes first in the map, and reports the fields
// of every other. It is nil when there is none.
func (l *limitFile) choose(p place, g given, forms []form) *form {
	var chosen *form
	var at place
	for _, name := range g.inOrder() {
		i := slices.IndexFunc(forms, func(f form) bool { return slices.Contains(f.fields, name) })
		switch {
		case i < 0:
		case chosen == nil:
			chosen, at = &forms[i], g[name]
		case chosen != &forms[i]:
			l.node(g[name].where(), g[name].path, "cannot stand beside %s; choose one of %s", lastName(at), choices(forms))
			return nil
		}
	}
	if chosen == nil {
		l.node(p.where(), join(p.path, "rate"), "is missing; write rate: 10/s, or one of %s", choices(forms[1:]))
	}
	return chosen
}

func lastName(p place) string { return p.key.Value }

// inOrder returns the names as they come in the file.
func (g given) inOrder() []string {
	return slices.SortedFunc(maps.Keys(g), func(a, b string) int {
		x, y := g[a].where(), g[b].where()
		return compareNumbers(x.Line, y.Line, x.Column, y.Column)
	})
}

func compareNumbers(a, b, c, d int) int {
	if a != b {
		return a - b
	}
	return c - d
}

// finish makes the limit out of what is given; false after a fault.
func (l *limitFile) finish(d *draft) bool {
	f := l.choose(d.place, d.given, forms)
	if f == nil {
		return false
	}
	switch f.main {
	case "tiers": // read already
	case "in_flight":
		d.Kind = quota.Concurrency
	case "unlimited":
		d.Class = quota.Unlimited
	case "ban":
		d.Class = quota.Banned
	default:
		t, ok := l.makeTier(d.place, d.given, &d.tier, f)
		if !ok {
			return false
		}
		d.SetFirst(t)
	}
	if d.Class != quota.Counted {
		d.Rate.Per = time.Second // of nothing
		l.onlyBeside(d, f.main)
	}
	if d.MaxWait > 0 && !d.given.any("max_debt") {
		d.MaxDebt = max(10*time.Second, d.MaxWait)
	}
	return true
}

// onlyBeside reports the fields that mean nothing where nothing is counted.
func (l *limitFile) onlyBeside(d *draft, main string) {
	for _, name := range d.given.inOrder() {
		if !slices.Contains(notCounting, name) {
			l.node(d.given[name].where(), d.given[name].path, "cannot stand beside %s, which counts nothing; remove one of them", main)
		}
	}
}
