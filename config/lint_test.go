package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/golden"
	"github.com/quorate/quorate/internal/quota"
)

// lintCases holds, for each rule, limits that trigger it, and corrected ones. They are the limits
// of namespace n, unless they begin with another key.
var lintCases = []struct{ rule, bad, good string }{
	{"above-parent", "{t: {rate: 10/s, burst: 10}, u: {limit: 100, per: 1s, parent: t}}", "{t: {rate: 10/s, burst: 10}, u: {limit: 5, per: 1s, parent: t}}"},
	{"boundary-burst", "{a: {limit: 2, per: 1h, ceiling: hard}}", "{a: {limit: 2, per: 1h, window: sliding, ceiling: hard}}"},
	{"bucket-doubles", "{a: {rate: 10/d, burst: 10}}", "{a: {rate: 10/d, burst: 3}}"},
	{"burst-below-max-cost", "{a: {rate: 10/s, burst: 10, max_cost: 11}}", "{a: {rate: 10/s, burst: 11, max_cost: 11}}"},
	{"burst-below-max-cost", "{a: {limit: 10, per: 1s, max_cost: 11}}", "{a: {rate: 1/s, burst: 2, max_debt: 10s, max_cost: 10}}"},
	{"cut-off-above-rate", "{a: {rate: 10/s, when_cut_off: {rate: 11/s}}}", "{a: {rate: 10/s, when_cut_off: {rate: 10/s}}}"},
	{"cut-off-above-rate", "{a: {rate: 1/m, burst: 2, when_cut_off: {policy: hold, after: 1m, then: {rate: 1/s}}}}", "{a: {rate: 1/m, burst: 2, when_cut_off: {policy: hold, after: 1m, then: {rate: 1/h}}}}"},
	{"debt-below-max-cost", "{a: {rate: 10/s, burst: 200, max_wait: 1s, max_cost: 101}}", "{a: {rate: 10/s, burst: 200, max_wait: 1s, max_cost: 100}}"},
	{"default-unused", "namespaces: {n: {default: {rate: 1/m, burst: 9}, template: {rate: 1/m, burst: 9}}}", "namespaces: {n: {default: {rate: 1/m, burst: 9}}}"},
	{"enforced-wholly", "{a: {rate: 10/s, enforcement: {fraction: 100%}}}", "{a: {rate: 10/s, enforcement: {fraction: 99%}}}"},
	{"enforced-wholly", "{a: {rate: 10/s, enforcement: {mode: shadow, fraction: 5%}}}", "{a: {rate: 10/s, enforcement: shadow}}"},
	{"floor-above-parent", "{t: {rate: 10/s, burst: 99}, u: {rate: 9/s, parent: t, floor: {rate: 6/s}}}", "{t: {rate: 10/s, burst: 99}, u: {rate: 9/s, parent: t, floor: {rate: 5/s}}}"},
	{"floor-above-rate", "{t: {rate: 10/s, burst: 99}, u: {rate: 5/s, parent: t, floor: {rate: 5/s}}}", "{t: {rate: 10/s, burst: 99}, u: {rate: 5/s, parent: t, floor: {rate: 4/s}}}"},
	{ruleHidden, "{a: {rate: 10/s, match: {path: /q/**}}, b: {rate: 11/s, burst: 10, match: {methods: [GET], path: /q/x}}}", "{a: {rate: 10/s, match: {path: /q/**}}, b: {rate: 9/s, burst: 10, match: {methods: [GET], path: /q/x}}}"},
	{ruleHidden, "{a: {rate: 10/s, match: {methods: [GET, PUT], path: /p/*}}, b: {rate: 10/s, match: {methods: [PUT], path: /p/*.json}}}", "{a: {rate: 10/s, match: {methods: [GET], path: /p/*}}, b: {rate: 10/s, match: {methods: [PUT], path: /p/*}}}"},
	{ruleHidden, "{a: {unlimited: true, match: {path: /health}}, b: {rate: 10/s, match: {path: /*}}}", "{a: {unlimited: true, match: {path: /health}}, b: {rate: 10/s, match: {path: /v1/*}}}"},
	{ruleHidden, "{a: {rate: 10/s, match: {path: /x}}, b: {rate: 10/s, match: {path: /x/}}}", "{a: {rate: 10/s, match: {path: /x}}, b: {rate: 10/s, match: {path: /y/}}}"},
	{"leader-suits", "{a: {rate: 1/s, decide: local}}", "{a: {rate: 1/s}}"},
	{"leader-suits", "{a: {limit: 1, per: 1m}}", "{a: {limit: 1, per: 1m, decide: leader}}"},
	{"local-small-burst", "{a: {rate: 1/m, burst: 5, ceiling: hard, decide: local}}", "{a: {rate: 1/m, burst: 6, ceiling: hard, decide: local}}"},
	{"local-small-burst", "{a: {limit: 5, per: 1m, window: sliding, ceiling: hard, decide: local}}", "{a: {limit: 5, per: 1m, window: sliding, decide: local}}"},
	{"local-small-burst", "{a: {rate: 20/s, burst: 4, decide: local}}", "{a: {rate: 19/s, burst: 4, decide: local}, b: {rate: 20/s, burst: 4}}"},
	{"match-in-flight", "{a: {in_flight: 5, match: {path: /x}}}", "{a: {in_flight: 5}, b: {rate: 10/s, match: {path: /x}}}"},
	{"near-never", "{a: {rate: 10/s, near: 100%}}", "{a: {rate: 10/s, near: 99%}}"},
	{"never-refilled", "{a: {rate: 0/s, burst: 5}}", "{a: {rate: 0/s, burst: 0}}"},
	{"off", "{a: {rate: 10/s, enforcement: off}}", "{a: {rate: 10/s, enforcement: shadow}}"},
	{"refilled-slowly", "{a: {rate: 1/d, burst: 367}}", "{a: {rate: 1/d, burst: 366}}"},
	{"repeated-tier", "{a: {tiers: [{limit: 10, per: 1s}, {limit: 10, per: 1s}]}}", "{a: {tiers: [{limit: 10, per: 1s}, {limit: 11, per: 10s}]}}"},
	{"similar-names", "{per_client: {rate: 10/s}, perClient: {rate: 10/s}}", "{per_client: {rate: 10/s}, per_clients: {rate: 10/s}}"},
	{"template-shadows-name", "namespaces: {n: {template: {rate: 10/s}, limits: {login: {rate: 1/m, burst: 2}}}}", "namespaces: {n: {template: {rate: 10/s}, limits: {login: {rate: 100/s}}}}"},
	{"template-shadows-name", "namespaces: {n: {template: {unlimited: true}, limits: {abuse: {ban: true}}}}", "namespaces: {n: {template: {rate: 10/s}}, other: {limits: {abuse: {ban: true}}}}"},
	{"unreachable-tier", "{a: {tiers: [{limit: 5, per: 1m}, {limit: 1000, per: 1h}]}}", "{a: {tiers: [{limit: 5, per: 1m}, {limit: 299, per: 1h}]}}"},
	{"unreachable-tier", "{a: {tiers: [{rate: 5/s, burst: 9}, {limit: 14, per: 1s}]}}", "{a: {tiers: [{rate: 5/s, burst: 9}, {limit: 13, per: 1s}]}}"},
	{"unreachable-tier", "{a: {tiers: [{limit: 10, per: 1s}, {rate: 10/s, burst: 20}]}}", "{a: {tiers: [{limit: 10, per: 1s}, {rate: 10/s, burst: 19}]}}"},
	{"unreachable-tier", "{a: {tiers: [{limit: 10, per: day, window: calendar}, {limit: 310, per: month, window: calendar}]}}", "{a: {tiers: [{limit: 10, per: day, window: calendar}, {limit: 300, per: month, window: calendar}]}}"},
	{"zero-burst", "{a: {rate: 10/s, burst: 0}}", "{a: {ban: true}}"},
	{"zero-burst", "{a: {in_flight: 0}}", "{a: {in_flight: 1}}"},
}

// lintSource makes a file from a case.
func lintSource(text string) []byte {
	if !strings.HasPrefix(text, "namespaces:") {
		text = "namespaces: {n: {limits: " + text + "}}"
	}
	return []byte("version: 1\n" + text + "\n")
}

func TestLintRules(t *testing.T) {
	tested := map[string]bool{}
	for _, c := range lintCases {
		tested[c.rule] = true
		found, err := LintFile("bad", lintSource(c.bad))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) != 1 || found[0].Rule != c.rule || found[0].Line != 2 || found[0].Column < 14 {
			t.Errorf("%s: in %s\nfound %v", c.rule, c.bad, found)
		}
		found, err = LintFile("good", lintSource(c.good))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) > 0 {
			t.Errorf("%s: in the corrected %s\nfound %v", c.rule, c.good, found)
		}
	}
	for _, rule := range allLintRules() {
		if !tested[rule] {
			t.Errorf("rule %s has no case", rule)
		}
	}
}

// TestLintSeeds pins the findings on example limits from well-known texts on rate limiting, written
// in our form.
func TestLintSeeds(t *testing.T) {
	files, err := filepath.Glob("testdata/lint/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found, err := LintFile(filepath.Base(file), data)
		if err != nil {
			t.Fatal(err)
		}
		golden.Hold(t, strings.TrimSuffix(file, ".yaml")+".txt", writeFindings(found), *rewrite)
	}
}

func writeFindings(found []Finding) string {
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintln(&b, f)
	}
	return b.String()
}

// TestLintExamples requires our own examples to follow our advice.
func TestLintExamples(t *testing.T) {
	for _, file := range []string{"limits.yaml", "limits-all.yaml"} {
		data, err := os.ReadFile(filepath.Join("../examples", file))
		if err != nil {
			t.Fatal(err)
		}
		if found, err := LintFile(file, data); err != nil || len(found) > 0 {
			t.Errorf("%s: %v\n%s", file, err, writeFindings(found))
		}
	}
}

func TestLintIsDeterministic(t *testing.T) {
	var all []quota.Limit
	for i, c := range lintCases {
		limits, err := ParseLimits("f", lintSource(c.bad))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range limits {
			l.Namespace += strconv.Itoa(i)
			all = append(all, l)
		}
	}
	first := Lint(all)
	if len(first) != len(lintCases) {
		t.Errorf("%d findings of %d cases:\n%s", len(first), len(lintCases), writeFindings(first))
	}
	slices.Reverse(all)
	if again := Lint(all); !slices.Equal(first, again) {
		t.Errorf("in another order: %v\nwant %v", again, first)
	}
	if got := first[0].String(); strings.HasPrefix(got, "0") {
		t.Errorf("a finding without a place: %s", got)
	}
}

func TestLintUnreadable(t *testing.T) {
	if _, err := LintFile("f", []byte("version: 2")); err == nil {
		t.Error("lints a file that cannot be parsed")
	}
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"/product/*", "/product/*", true},
		{"/product/*", "/product/7", true},
		{"/product/*", "/product/a*b", true},
		{"/product/a*", "/product/*", false},
		{"/product/*", "/product/7/8", false},
		{"/product/*", "/product/**", false},
		{"/product/**", "/product/*/x", true},
		{"/product/*", "/product/", false},
		{"/a/*/b", "/a//b", false},
		{"/product/**", "/product/", true},
		{"/product/**", "/products", false},
		{"/**/x", "/a/b/x", true},
		{"/**/x", "/a/x/b", false},
		{"/a*b*c", "/abbc", true},
		{"/a*b*c", "/abcb", false},
		{"/" + strings.Repeat("*a", 400) + "b", "/" + strings.Repeat("a", 1000), false},
	} {
		if got := covers(&quota.Match{Path: c.a}, &quota.Match{Path: c.b}); got != c.want {
			t.Errorf("%.40s covers %.40s: %v", c.a, c.b, got)
		}
	}
}

// allLintRules returns the names of all rules.
func allLintRules() []string {
	names := []string{ruleHidden}
	for _, r := range lintRules {
		names = append(names, r.name)
	}
	slices.Sort(names)
	return names
}
