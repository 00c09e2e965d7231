package config

import (
	"errors"
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// saidBy maps a field that package quota names in an error to the fields of the file that the error
// may concern.
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

// locate reports an error of package quota at the field that the error names first. It reports
// joined errors one by one.
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

// checkTogether reports faults between limits and their parents. In a file with other faults it
// skips faults that may follow from those, so that one round of fixes suffices.
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
		if faulty && (!ok || l.mayFollowFromFault(&d.Limit, what)) {
			continue
		}
		if !ok {
			l.fault(0, 0, "", "%s", text)
			continue
		}
		l.locate(d, errors.New(what))
	}
}

// mayFollowFromFault reports whether an error between a limit and its parents may follow from a fault already
// reported: a limit above it is faulty, or an entry of slas may be. For errors that do not concern
// parents it returns true, because their own checks have reported them.
func (l *limitFile) mayFollowFromFault(limit *quota.Limit, what string) bool {
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
