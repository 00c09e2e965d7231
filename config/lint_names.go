package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

func lintFloorParent(in *lint, l *quota.Limit, say say) {
	parent := in.named[quota.LimitName{Namespace: l.Namespace, Limit: l.Parent}]
	if l.Floor.Tokens == 0 || parent == nil || parent.Class != quota.Counted || parent.Kind == quota.Concurrency {
		return
	}
	for _, t := range parent.Tiers() {
		if t.Rate.Per > 0 && compareRates(t.Rate, l.Floor, 2) < 0 {
			say("a floor of %s leaves no room for a second key below %s (%s): floors of two keys are more than it; lower the floor",
				formatRate(l.Floor), l.Parent, describeTier(&t))
			return
		}
	}
}

func lintFloorRate(_ *lint, l *quota.Limit, say say) {
	if l.Floor.Tokens > 0 && l.Kind != quota.Concurrency && compareRates(l.Floor, l.Rate, 1) >= 0 {
		say("a floor of %s covers the limit's own %s, so the parent never applies; lower the floor, or omit the parent",
			formatRate(l.Floor), formatRate(l.Rate))
	}
}

func lintDefaultUnused(in *lint, l *quota.Limit, say say) {
	if l.Limit == quota.Default && l.LimitName != quota.Global && in.template(l) != nil {
		say("is never used: the namespace's template takes precedence for every unknown name; remove one of the two")
	}
}

func (in *lint) template(l *quota.Limit) *quota.Limit {
	return in.named[quota.LimitName{Namespace: l.Namespace, Limit: quota.Template}]
}

// lintTemplateShadows finds limits whose misspelt name would match a looser template.
func lintTemplateShadows(in *lint, l *quota.Limit, say say) {
	t := in.template(l)
	if t == nil || l.Limit == quota.Template || l.Limit == quota.Default {
		return
	}
	if why := looser(t, l); why != "" {
		say("a typo in its name is not noticed: the namespace's template applies to any name, and %s; move the limit to a namespace without a template", why)
	}
}

// looser describes how a template is looser than a limit, or returns an empty string.
func looser(t, l *quota.Limit) string {
	switch {
	case l.Class == quota.Unlimited || t.Class == quota.Banned || l.Enforcement != quota.Enforce:
		return ""
	case t.Enforcement != quota.Enforce:
		return fmt.Sprintf("refuses nothing (enforcement: %v)", t.Enforcement)
	case t.Class == quota.Unlimited:
		return "admits everything"
	case l.Class == quota.Banned:
		return "admits what this one refuses"
	case l.Ceiling == quota.Hard && t.Ceiling == quota.Soft:
		return "is soft where this one is hard"
	}
	own, made := l.Tiers(), t.Tiers()
	for i := range made {
		if !within(&made[i], &own[0]) && within(&own[0], &made[i]) {
			return fmt.Sprintf("admits more: %s in place of %s", describeTier(&made[i]), describeTier(&own[0]))
		}
	}
	return ""
}

// plainName returns a name in lower case and without punctuation, which people mix up.
func plainName(s string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(s))
}

func lintSimilarNames(in *lint, l *quota.Limit, say say) {
	plain := quota.LimitName{Namespace: l.Namespace, Limit: plainName(l.Limit)}
	if first, ok := in.plain[plain]; ok {
		say("differs from %v only by case or punctuation; callers will mix them up, so rename one", first)
		return
	}
	in.plain[plain] = l.LimitName
}

const ruleHidden = "hidden-by-match"

// maxMatched bounds the limits for HTTP requests that hidden compares pairwise.
const maxMatched = 2000

// hidden finds limits for HTTP requests that have no effect, because another limit of their
// namespace matches the same requests: a request is charged to all matching limits. It ignores
// limits after the first maxMatched.
func (in *lint) hidden() {
	var matched []*quota.Limit
	for i := range in.limits {
		if in.limits[i].Match != nil && len(matched) < maxMatched {
			matched = append(matched, &in.limits[i])
		}
	}
	for i, l := range matched {
		for j, wide := range matched {
			if i == j || wide.Namespace != l.Namespace || !covers(wide.Match, l.Match) {
				continue
			}
			if why := hides(wide, l, j > i); why != "" {
				in.found = append(in.found, Finding{Limit: l.LimitName, Rule: ruleHidden, Text: fmt.Sprintf(
					"%v matches everything that it matches (%s), and all matching limits are charged: %s", wide.LimitName, wide.Match.Path, why)})
				break
			}
		}
	}
}

// hides describes how limit wide, which matches every request that l matches, makes l ineffective,
// or returns an empty string. Of two equivalent limits only the later one is hidden.
func hides(wide, l *quota.Limit, later bool) string {
	if wide.Class == quota.Unlimited || wide.Enforcement != quota.Enforce || wide.Fraction != 0 && wide.Fraction != quota.Million {
		return ""
	}
	switch {
	case l.Class == quota.Unlimited:
		return "being unlimited exempts nothing; narrow the other"
	case l.Class == quota.Banned || later && slices.Equal(wide.Tiers(), l.Tiers()):
		return ""
	case wide.Class == quota.Banned:
		return "the other refuses them; narrow it, or remove this one"
	}
	own, others := l.Tiers(), wide.Tiers()
	for i := range own {
		if !slices.ContainsFunc(others, func(t quota.Tier) bool { return t == own[i] || within(&t, &own[i]) }) {
			return ""
		}
	}
	return "it admits no more, so that this one is never reached; lower it, or remove it"
}

// covers reports whether a matches every request that b matches.
func covers(a, b *quota.Match) bool {
	for _, m := range b.Methods {
		if len(a.Methods) > 0 && !slices.Contains(a.Methods, m) {
			return false
		}
	}
	if len(a.Methods) > 0 && len(b.Methods) == 0 {
		return false
	}
	return coversPath(segments(a.Path), segments(b.Path))
}

func segments(path string) []string { return strings.Split(strings.TrimSuffix(path, "/"), "/") }

// coversPath compares paths segment by segment; ** matches any number of segments.
func coversPath(a, b []string) bool {
	return wildcard(len(a), len(b), func(i int) bool { return a[i] == "**" }, func(i, j int) bool {
		alone := a[i] == "*" && b[j] == "" // a lone * does not match an empty segment
		return b[j] != "**" && !alone && coversSegment(a[i], b[j])
	})
}

// coversSegment matches a against the segment b, in which * is an unknown text.
func coversSegment(a, b string) bool {
	return wildcard(len(a), len(b), func(i int) bool { return a[i] == '*' }, func(i, j int) bool { return a[i] == b[j] })
}

// wildcard matches m items with a pattern of n items, some of which are stars for any number of
// items. It takes at most n*m steps.
func wildcard(n, m int, star func(i int) bool, same func(i, j int) bool) bool {
	i, j := 0, 0
	back, from := -1, 0 // the last star, and the position at which the pattern after it was last tried
	for j < m {
		switch {
		case i < n && star(i):
			back, from = i, j
			i++
		case i < n && same(i, j):
			i, j = i+1, j+1
		case back >= 0:
			from++
			i, j = back+1, from
		default:
			return false
		}
	}
	for i < n && star(i) {
		i++
	}
	return i == n
}
