package console

import (
	"fmt"
	"html/template"
	"strings"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// maxShownChanges bounds the limits in a diff.
const maxShownChanges = 200

// ruleText describes a limit in a few words.
func ruleText(l *quoratev1.Limit) string {
	switch {
	case l == nil:
		return "no rule"
	case l.Class == quoratev1.Class_CLASS_UNLIMITED:
		return "unlimited"
	case l.Class == quoratev1.Class_CLASS_BANNED:
		return "banned"
	case len(l.Tiers) > 0:
		var parts []string
		for _, t := range l.Tiers {
			parts = append(parts, tierText(t))
		}
		return strings.Join(parts, "; ")
	}
	return tierText(&quoratev1.Tier{Kind: l.Kind, Rate: l.Rate, Burst: l.Burst, Calendar: l.Calendar, Timezone: l.Timezone})
}

func tierText(t *quoratev1.Tier) string {
	switch kind := quota.Kind(t.Kind - 1); { // the proto has 0 for none
	case kind == quota.Concurrency:
		return num(t.Burst) + " in flight"
	case kind == quota.CalendarWindow:
		zone := ""
		if t.Timezone != "" && t.Timezone != "UTC" {
			zone = " in " + t.Timezone
		}
		return num(t.Burst) + " a " + t.Calendar + zone
	case kind.Windowed():
		return t.Rate + " " + enumText(t.Kind.String(), "KIND_")
	}
	return t.Rate + ", burst " + num(t.Burst)
}

// enumText returns the limit-file word for an enum value.
func enumText(s, prefix string) string {
	if strings.HasSuffix(s, "_UNSPECIFIED") {
		return ""
	}
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(s, prefix), "_", " "))
}

// enforcedText returns the badge of a limit's enforcement.
func enforcedText(l *quoratev1.Limit) Badge {
	switch {
	case l == nil:
		return Badge{"idle", "gone"}
	case l.Enforcement == quoratev1.Enforcement_ENFORCEMENT_SHADOW:
		return Badge{"warn", "shadow"}
	case l.Enforcement == quoratev1.Enforcement_ENFORCEMENT_OFF:
		return Badge{"warn", "off"}
	case l.Fraction > 0 && l.Fraction < 1:
		return Badge{"warn", "enforced for " + part(l.Fraction)}
	}
	return Badge{"good", "enforced"}
}

// unenforcedBadge returns the badge of a limit that is not fully enforced; nil for others.
func unenforcedBadge(e quoratev1.Enforcement, fraction float64) *Badge {
	b := enforcedText(&quoratev1.Limit{Enforcement: e, Fraction: fraction})
	if b.Kind != "warn" {
		return nil
	}
	return &b
}

// limitTitle returns a limit's name for people. An inline limit has none: it returns its namespace and rule.
func limitTitle(namespace, limit string) string {
	if l := inlineLimit(namespace, limit); l != nil {
		return namespace + ": " + ruleText(apiproto.Limit(l))
	}
	switch {
	case namespace == globalNamespace:
		return "global default"
	case limit == defaultLimit || limit == templateLimit:
		return "the " + limit[1:] + " of " + namespace
	}
	return namespace + "/" + limit
}

// inlineLimit returns the limit that its caller defined, or nil if the name is that of another limit. It has no page.
func inlineLimit(namespace, limit string) *quota.Limit {
	n := quota.LimitName{Namespace: namespace, Limit: limit}
	if !n.IsInline() {
		return nil
	}
	l, err := n.Inline()
	if err != nil {
		return nil
	}
	return l
}

// limitLink returns a limit's title, as a link to its page if it has one.
func limitLink(namespace, limit string) (template.HTML, error) {
	title := template.HTMLEscapeString(limitTitle(namespace, limit))
	if inlineLimit(namespace, limit) != nil {
		return template.HTML(title), nil
	}
	to, err := link("limit", "namespace", namespace, "limit", limit)
	return template.HTML(`<a href="` + template.HTMLEscapeString(to) + `">` + title + `</a>`), err
}

// changesDiff returns changes of limits as a diff of fields.
func changesDiff(changes []*quoratev1.LimitChange) Diff {
	var out Diff
	for i, c := range changes {
		if i == maxShownChanges {
			return append(out, DiffLine{" ", fmt.Sprintf("... and %d more limits", len(changes)-i)})
		}
		name := c.Namespace + "/" + c.Limit
		switch c.Kind {
		case quoratev1.ChangeKind_CHANGE_KIND_ADDED:
			out = append(out, DiffLine{"+", name + "  (new)"})
		case quoratev1.ChangeKind_CHANGE_KIND_REMOVED:
			out = append(out, DiffLine{"-", name + "  (removed)"})
		default:
			out = append(out, DiffLine{" ", name})
		}
		for _, f := range c.Fields {
			if f.Before != "" {
				out = append(out, DiffLine{"-", "    " + f.Field + ": " + f.Before})
			}
			if f.After != "" {
				out = append(out, DiffLine{"+", "    " + f.Field + ": " + f.After})
			}
		}
	}
	return out
}

// changesText returns how many limits change.
func changesText(changes []*quoratev1.LimitChange) string {
	var added, changed, removed int
	for _, c := range changes {
		switch c.Kind {
		case quoratev1.ChangeKind_CHANGE_KIND_ADDED:
			added++
		case quoratev1.ChangeKind_CHANGE_KIND_REMOVED:
			removed++
		default:
			changed++
		}
	}
	var parts []string
	for _, p := range []struct {
		n    int
		verb string
	}{{added, "new"}, {changed, "changed"}, {removed, "removed"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.verb))
		}
	}
	if len(parts) == 0 {
		return "No limit changes."
	}
	return "Limits: " + strings.Join(parts, ", ") + "."
}
