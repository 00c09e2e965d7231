package config

import (
	"errors"
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// notBoth reports two fields of which a map may have one.
func (l *limitFile) notBoth(g Given, a, b string) {
	if g.any(a) && g.any(b) {
		second := g[g.InOrder()[0]]
		for _, name := range g.InOrder() {
			if name == a || name == b {
				second = g[name]
			}
		}
		second.faultAtName("%s and %s cannot stand together; choose one", a, b)
	}
}

// bothOrNone reports a field without which another means nothing.
func (l *limitFile) bothOrNone(p Value, g Given, a, b, writeA, writeB string) {
	switch {
	case g.any(a) && !g.any(b):
		p.Missing(b, "is missing beside %s; write %s", a, writeB)
	case g.any(b) && !g.any(a):
		p.Missing(a, "is missing beside %s; write %s", b, writeA)
	}
}

// saidBy names the fields of a file that an error of package quota about
// another one may be about.
var saidBy = map[string][]string{
	"rate":        {"rate", "limit", "in_flight"},
	"burst":       {"burst", "limit", "in_flight"},
	"calendar":    {"per", "tiers"},
	"kind":        {"tiers", "window"},
	"concurrency": {"in_flight"},
	"max_wait":    {"max_wait", "max_debt"},
	"max_debt":    {"max_debt", "max_wait"},
	"fraction":    {"enforcement"},
}

// locate reports an error of package quota about a limit at the field that it
// begins with. What it joins is reported one by one.
func (l *limitFile) locate(d *draft, err error) {
	for text := range strings.SplitSeq(err.Error(), "\n") {
		name, what, ok := strings.Cut(text, ": ")
		if !ok {
			name, what = "", text
		}
		root := name
		if i := strings.IndexAny(name, ".["); i >= 0 {
			root = name[:i]
		}
		at, path := d.value.at(), d.value.path
		for _, field := range append(saidBy[root], root) {
			if p, there := d.given[field]; there {
				at, path = p.node, p.path+strings.TrimPrefix(name, root)
				break
			}
		}
		l.faultAt(at, path, "%s", what)
	}
}

// checkTogether reports what is wrong between limits: parents. In a file that has faults already it reports
// what is sure nevertheless, so that all can be mended in one round.
func (l *limitFile) checkTogether() {
	faulty := len(l.faults) > 0
	_, err := quota.NewLimits(1, l.limits)
	if err == nil {
		return
	}
	for text := range strings.SplitSeq(err.Error(), "\n") {
		rest, _ := strings.CutPrefix(text, "limit ")
		name, what, _ := strings.Cut(rest, ": ")
		namespace, limit, _ := strings.Cut(name, "/")
		d, ok := l.drafts[quota.LimitName{Namespace: namespace, Limit: limit}]
		if faulty && (!ok || l.unsure(&d.Limit, what)) {
			continue
		}
		if !ok {
			l.fault(0, 0, "", "%s", text)
			continue
		}
		l.locate(&d, errors.New(what))
	}
}

// unsure reports whether what is wrong between a limit and others may follow from a fault that has been
// reported: one above it has it, or may be among the slas that have. What is no matter of parents has been
// reported where it stands.
func (l *limitFile) unsure(limit *quota.Limit, what string) bool {
	if field, _, _ := strings.Cut(what, ": "); field != "parent" && field != "floor" || limit.Namespace == quota.HTTPNamespace {
		return true
	}
	for range quota.MaxParents {
		above := quota.LimitName{Namespace: limit.Namespace, Limit: limit.Parent}
		d, ok := l.drafts[above]
		if l.broken[above] || !ok {
			return l.broken[above]
		}
		limit = &d.Limit
	}
	return false
}
