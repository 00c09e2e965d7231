package config

import (
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

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
			g[name].faultAtName("cannot stand beside %s; choose one of %s", at.key.Value, choices(forms))
			return nil
		}
	}
	if chosen == nil {
		v.Missing("rate", "is missing; write rate: 10/s, or one of %s", choices(forms[1:]))
	}
	return chosen
}

// finish makes the limit out of what is given; false after a fault.
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
	for _, name := range d.given.InOrder() {
		if !slices.Contains(notCounting, name) {
			d.given[name].faultAtName("cannot stand beside %s, which counts nothing; remove one of them", main)
		}
	}
}
