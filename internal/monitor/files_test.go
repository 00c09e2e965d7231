package monitor

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

var rewrite = flag.Bool("rewrite", false, "write docs/reference/logs.md; then read the diff")

const runbooks = "https://github.com/quorate/quorate/blob/main/docs/reference/alerts.md#"

// rule is an alert or a recording rule.
type rule struct {
	Alert, Record, Expr, For string
	Labels, Annotations      map[string]string
}

func rules(t *testing.T, file string) (out []rule) {
	t.Helper()
	var f struct{ Groups []struct{ Rules []rule } }
	readYAML(t, file, &f)
	for _, g := range f.Groups {
		out = append(out, g.Rules...)
	}
	return out
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, "deploy", "prometheus", file)), into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

type panel struct {
	ID          int
	Title, Type string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ Expr string }
}

type dashboard struct {
	Panels     []panel
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
	Annotations struct{ List []struct{ Name, Expr string } }
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, "deploy", "grafana", "quorate.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// queries returns every expression, by where it is.
func queries(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, r := range rules(t, "quorate.rules.yaml") {
		out["rule "+r.Record] = r.Expr
	}
	for _, a := range rules(t, "quorate.alerts.yaml") {
		out["alert "+a.Alert] = a.Expr
	}
	d := readDashboard(t)
	for _, p := range d.Panels {
		for i, q := range p.Targets {
			out[fmt.Sprintf("panel %s %d", p.Title, i)] = q.Expr
		}
	}
	for _, a := range d.Annotations.List {
		out["annotation "+a.Name] = a.Expr
	}
	return out
}

// TestQueriesNameMetricsThatExist, with labels that these have.
func TestQueriesNameMetricsThatExist(t *testing.T) {
	labels := map[string]map[string]bool{"up": {}, "process_cpu_seconds_total": {}, "process_resident_memory_bytes": {}}
	for _, m := range catalogue(t).Metrics {
		own := map[string]bool{}
		for _, l := range m.Labels {
			own[l] = true
		}
		if m.Type != "histogram" {
			labels[m.Name] = own
			continue
		}
		labels[m.Name+"_count"], labels[m.Name+"_sum"] = own, own
		labels[m.Name+"_bucket"] = map[string]bool{"le": true}
		for l := range own {
			labels[m.Name+"_bucket"][l] = true
		}
	}
	for _, r := range rules(t, "quorate.rules.yaml") {
		labels[r.Record] = map[string]bool{"namespace": true, "limit": true, "protocol": true, "result": true}
	}
	all := queries(t)
	for _, v := range readDashboard(t).Templating.List {
		if v.Type == "query" {
			all["variable "+v.Name] = v.Query
		}
	}
	metric := regexp.MustCompile(`\b(?:[a-z_]+:)?(?:quorate_|quorate:|process_|up\b)[a-z0-9_:]*(\{[^}]*\})?`)
	matcher := regexp.MustCompile(`([a-z_]+)(?:=~|!=|!~|=)"`)
	used := map[string]bool{}
	for where, expr := range all {
		for _, m := range metric.FindAllString(expr, -1) {
			name, braces, _ := strings.Cut(m, "{")
			own, there := labels[name]
			if used[name] = true; !there {
				t.Errorf("%s: %s is no metric of a node and no rule", where, name)
			}
			for _, l := range matcher.FindAllStringSubmatch(braces, -1) {
				if there && !own[l[1]] && l[1] != "instance" && l[1] != "job" {
					t.Errorf("%s: %s has no label %s", where, name, l[1])
				}
			}
		}
	}
	if len(used) < 40 {
		t.Errorf("only %d metrics are looked at", len(used))
	}
}

// TestAlertsAreWhole: each alert says how bad it is and what it means, has a runbook that says the
// same and what to do, and a test in which it is quiet and one in which it fires. There is no
// runbook without an alert.
func TestAlertsAreWhole(t *testing.T) {
	var tests struct {
		Tests []struct {
			Cases []struct {
				Alert string `yaml:"alertname"`
				Fires []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	readYAML(t, "quorate.test.yaml", &tests)
	quiet, fires := map[string]bool{}, map[string]bool{}
	for _, test := range tests.Tests {
		for _, c := range test.Cases {
			if len(c.Fires) > 0 {
				fires[c.Alert] = true
			} else {
				quiet[c.Alert] = true
			}
		}
	}
	page := read(t, "docs", "reference", "alerts.md")
	sections := map[string]string{}
	for _, s := range strings.Split(page, "\n## ")[1:] {
		title, text, _ := strings.Cut(s, "\n")
		sections[title] = text
	}
	label := regexp.MustCompile(`\{\{ \$labels\.([a-z]+) \}\}`)
	alerts := rules(t, "quorate.alerts.yaml")
	for _, a := range alerts {
		anchor, means, summary := strings.ToLower(a.Alert), a.Annotations["description"], a.Annotations["summary"]
		if means == "" || summary == "" || a.For == "" || a.Annotations["runbook_url"] != runbooks+anchor {
			t.Errorf("%s is not whole: %+v", a.Alert, a)
		}
		if !quiet[a.Alert] || !fires[a.Alert] {
			t.Errorf("quorate.test.yaml does not show %s: quiet %t, firing %t", a.Alert, quiet[a.Alert], fires[a.Alert])
		}
		says := label.ReplaceAllString(strings.ReplaceAll(summary, "{{ $value }}", "N"), "`$1`")
		if row := fmt.Sprintf("\n| [%s](#%s) | %s | %s |\n", a.Alert, anchor, a.Labels["severity"], escape(says)); !strings.Contains(page, row) {
			t.Errorf("docs/reference/alerts.md has no line %s", strings.TrimSpace(row))
		}
		for _, want := range []string{"\n" + means + "\n\n1. ", "\n```promql\n" + a.Expr + "\n```\n\nfor " + a.For + ".\n"} {
			if !strings.Contains(sections[a.Alert], want) {
				t.Errorf("docs/reference/alerts.md does not say of %s:\n%s", a.Alert, want)
			}
		}
		delete(sections, a.Alert)
	}
	for title := range sections {
		t.Errorf("docs/reference/alerts.md has %s, which is no alert", title)
	}
	if len(alerts) < 20 {
		t.Errorf("only %d alerts", len(alerts))
	}
}

// TestPromtool: each query parses, the rules are good, and each alert is quiet and fires when it
// should.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("promtool is missing: apt-get install prometheus")
		}
		t.Skip("promtool is missing: apt-get install prometheus")
	}
	dir := filepath.Join(root, "deploy", "prometheus")
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	run("check", "rules", filepath.Join(dir, "quorate.rules.yaml"), filepath.Join(dir, "quorate.alerts.yaml"))
	run("test", "rules", filepath.Join(dir, "quorate.test.yaml"))
	run("check", "config", filepath.Join(dir, "prometheus.yaml"))
	// A panel's query is a rule as any, once Grafana's variables have values.
	fill := strings.NewReplacer("$__rate_interval", "5m", "$namespace", "web", "$limit", "login", "$instance", "n1")
	var all []map[string]string
	for where, expr := range queries(t) {
		name := "x:" + regexp.MustCompile(`[^a-z]+`).ReplaceAllString(strings.ToLower(where), "_") + strconv.Itoa(len(all))
		all = append(all, map[string]string{"record": name, "expr": fill.Replace(expr)})
	}
	data, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "panels", "rules": all}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "panels.yaml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	run("check", "rules", path)
	run("test", "rules", idleTest(t, fill))
}

// idleTest writes a test for promtool: of a cluster that nobody asks, no query that divides answers
// NaN, which a panel would show, and topk take for one of the ten.
func idleTest(t *testing.T, fill *strings.Replacer) string {
	var series, tests []any
	for _, name := range []string{
		`quorate_attempted_tokens_total{instance="n1",namespace="web",limit="login"}`, `quorate_admitted_tokens_total{instance="n1",namespace="web",limit="login"}`,
		`quorate_over_admitted_tokens_total{instance="n1",namespace="web",limit="login",cause="estimate"}`, `quorate_needless_refusals_total{instance="n1",namespace="web",limit="login"}`,
		`quorate_needless_refusals_at_most_total{instance="n1",namespace="web",limit="login"}`,
		`quorate_decisions_total{instance="n1",namespace="web",limit="login",result="refused",why="over_limit"}`,
		`quorate_request_duration_seconds_bucket{instance="n1",protocol="http",method="POST /v1/allow",code="200",le="0.001"}`,
		`quorate_request_duration_seconds_bucket{instance="n1",protocol="http",method="POST /v1/allow",code="200",le="+Inf"}`,
		`quorate_account_commit_seconds_bucket{instance="n1",le="0.001"}`, `quorate_account_commit_seconds_bucket{instance="n1",le="+Inf"}`,
	} {
		series = append(series, map[string]string{"series": name, "values": "5x40"})
	}
	for where, expr := range queries(t) {
		if strings.HasPrefix(where, "panel") && (strings.Contains(expr, " / ") || strings.Contains(expr, "quantile")) {
			tests = append(tests, map[string]any{"expr": fill.Replace(expr), "eval_time": "30m", "exp_samples": []any{}})
		}
	}
	data, err := yaml.Marshal(map[string]any{"tests": []any{map[string]any{"interval": "1m", "input_series": series, "promql_expr_test": tests}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "idle.yaml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestNeedlessHasTwoBounds: a panel with the lower bound of needless refusals has the upper one too: 0 reads as none.
func TestNeedlessHasTwoBounds(t *testing.T) {
	for _, p := range readDashboard(t).Panels {
		all := fmt.Sprint(p.Targets)
		if strings.Contains(all, "quorate_needless_refusals_total") && !strings.Contains(all, "quorate_needless_refusals_at_most_total") {
			t.Errorf("%s: %s", p.Title, all)
		}
	}
}

// TestDashboard: no panel lies on another, and each asks for something.
func TestDashboard(t *testing.T) {
	taken := map[[2]int]string{}
	for i, p := range readDashboard(t).Panels {
		if p.ID != i+1 || p.Title == "" || (p.Type == "row") != (len(p.Targets) == 0) || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d: %+v", i, p)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" {
					t.Fatalf("%s lies on %s", p.Title, taken[at])
				}
				taken[at] = p.Title
			}
		}
	}
}

// TestDashboardShowsTheDiskAndTheNetwork: what slows commits and elections is in some panel.
func TestDashboardShowsTheDiskAndTheNetwork(t *testing.T) {
	all := fmt.Sprint(readDashboard(t).Panels)
	for _, name := range []string{"quorate_log_append_seconds", "quorate_leader_changes_total", "quorate_voters_missing", "quorate_peer_round_trip_seconds", "quorate_disk_free_bytes"} {
		if !strings.Contains(all, name) {
			t.Errorf("no panel shows %s", name)
		}
	}
}
