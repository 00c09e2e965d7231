package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// A Finding is a warning: the limit is valid, but probably not what the author meant.
type Finding struct {
	Limit quota.LimitName
	Rule  string // the rule's name in docs/reference/limits.md
	Text  string // what happens, and what to do
	// Line and Column locate the limit in its file, from 1; 0 without a file.
	Line, Column int
}

// String returns line:column: limit: text (rule), without the parts that are unknown.
func (f Finding) String() string {
	at := ""
	if f.Line > 0 {
		at = fmt.Sprintf("%d:%d: ", f.Line, f.Column)
	}
	return fmt.Sprintf("%s%v: %s (%s)", at, f.Limit, f.Text, f.Rule)
}

// LintFile parses a limit file and returns Lint's findings with their places. Its error is that of
// ParseLimits.
func LintFile(source string, data []byte) ([]Finding, error) {
	limits, drafts, err := parseLimits(source, data)
	if err != nil {
		return nil, err
	}
	found := Lint(limits)
	for i := range found {
		d := drafts[found[i].Limit]
		found[i].Line, found[i].Column = d.value.Line(), d.value.at().Column
	}
	return found, nil
}

// Lint returns warnings about limits that quota.NewLimits accepts, sorted by
// limit and rule. The same limits always give the same findings.
func Lint(limits []quota.Limit) []Finding {
	in := &lint{limits: slices.Clone(limits), named: map[quota.LimitName]*quota.Limit{}, plain: map[quota.LimitName]quota.LimitName{}}
	slices.SortFunc(in.limits, compareLimits)
	for i := range in.limits {
		in.named[in.limits[i].LimitName] = &in.limits[i]
	}
	for _, rule := range lintRules {
		for i := range in.limits {
			l := &in.limits[i]
			if rule.counted && l.Class != quota.Counted {
				continue
			}
			rule.check(in, l, func(format string, args ...any) {
				in.found = append(in.found, Finding{Limit: l.LimitName, Rule: rule.name, Text: fmt.Sprintf(format, args...)})
			})
		}
	}
	in.hidden()
	slices.SortStableFunc(in.found, func(a, b Finding) int {
		return cmp.Or(a.Limit.Compare(b.Limit), strings.Compare(a.Rule, b.Rule))
	})
	return in.found
}

// lint is the input of the rules.
type lint struct {
	limits []quota.Limit
	named  map[quota.LimitName]*quota.Limit
	plain  map[quota.LimitName]quota.LimitName // the first name of each plainName
	found  []Finding
}

type say func(format string, args ...any)

// lintRules lists the rules. Rules for counted limits run only on limits that count.
var lintRules = []struct {
	name    string
	counted bool
	check   func(in *lint, l *quota.Limit, say say)
}{
	{"above-parent", true, lintAboveParent},
	{"boundary-burst", true, lintBoundary},
	{"bucket-doubles", true, lintBucketDoubles},
	{"burst-below-max-cost", true, lintMaxCost},
	{"cut-off-above-rate", true, lintCutOffRate},
	{"debt-below-max-cost", true, lintDebt},
	{"default-unused", false, lintDefaultUnused},
	{"enforced-wholly", false, lintFraction},
	{"floor-above-parent", true, lintFloorParent},
	{"floor-above-rate", true, lintFloorRate},
	{"leader-suits", true, lintLeaderSuits},
	{"local-small-burst", true, lintLocalSmallBurst},
	{"match-in-flight", true, lintMatchInFlight},
	{"near-never", true, lintNear},
	{"never-refilled", true, lintNeverRefilled},
	{"off", false, lintOff},
	{"refilled-slowly", true, lintSlowly},
	{"repeated-tier", true, lintRepeatedTier},
	{"similar-names", false, lintSimilarNames},
	{"template-shadows-name", false, lintTemplateShadows},
	{"unreachable-tier", true, lintUnreachableTier},
	{"zero-burst", true, lintZeroBurst},
}
