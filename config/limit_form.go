package config

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// A form is one of the ways to say what a limit counts.
type form struct {
	main   string   // the field that chooses it
	fields []string // all its fields
	what   string
}

// forms are the ways to say what a limit counts. A limit uses exactly one.
var forms = []form{
	{"rate", []string{"rate", "burst"}, "rate and burst (a token bucket)"},
	{"limit", []string{"limit", "per", "window", "timezone"}, "limit and per (a window)"},
	{"tiers", []string{"tiers"}, "tiers (several of these)"},
	{"in_flight", []string{"in_flight"}, "in_flight (concurrency)"},
	{"unlimited", []string{"unlimited"}, "unlimited: true"},
	{"ban", []string{"ban"}, "ban: true"},
}

// notCounting are the fields that unlimited and ban allow beside them.
var notCounting = []string{"unlimited", "ban", "enforcement", "match", "max_keys", "idle"}

func choices(forms []form) string {
	var out []string
	for _, f := range forms {
		out = append(out, f.what)
	}
	return enumerate(out, "and")
}

// choose returns the form whose field comes first in the map. If a field of another form follows,
// or the map has no form, it reports a fault and returns nil.
func (l *limitFile) choose(v Value, g Given, forms []form) *form {
	var chosen *form
	var at Value
	for _, name := range g.InOrder() {
		i := slices.IndexFunc(forms, func(f form) bool { return slices.Contains(f.fields, name) })
		switch {
		case i < 0:
		case chosen == nil:
			chosen, at = &forms[i], g[name]
		case chosen != &forms[i]:
			g[name].faultAtName("cannot be combined with %s; choose one of %s", at.key.Value, choices(forms))
			return nil
		}
	}
	if chosen == nil {
		v.Missing("rate", "is missing; write rate: 10/s, or one of %s", choices(forms[1:]))
	}
	return chosen
}

// finish makes the limit from the given fields. It returns false after a fault.
func (l *limitFile) finish(d *draft) bool {
	f := l.choose(d.value, d.given, forms)
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
		t, ok := l.makeTier(d.value, d.given, &d.tier, f)
		if !ok {
			return false
		}
		d.SetFirst(t)
	}
	if d.Class != quota.Counted {
		d.Rate.Per = time.Second // a rate of 0 tokens
		for _, name := range d.given.InOrder() {
			if !slices.Contains(notCounting, name) {
				d.given[name].faultAtName("cannot be combined with %s, which counts nothing; remove one of them", f.main)
			}
		}
	}
	if d.MaxWait > 0 && !d.given.any("max_debt") {
		d.MaxDebt = max(10*time.Second, d.MaxWait)
	}
	return true
}
