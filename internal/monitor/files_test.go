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

	"github.com/quorate/quorate/internal/golden"
)

var rewrite = flag.Bool("rewrite", false, "write what is generated into deploy and docs; then read the diff")

// TestFiles holds what is generated to the code.
func TestFiles(t *testing.T) {
	for path, want := range map[string]string{
		"deploy/grafana/quorate.json":           DashboardFile(),
		"deploy/prometheus/quorate.rules.yaml":  RecordsFile(),
		"deploy/prometheus/quorate.alerts.yaml": AlertsFile(),
		"deploy/prometheus/quorate.test.yaml":   TestsFile(),
		"docs/alerts.md":                        Runbook(),
	} {
		golden.Hold(t, filepath.Join(root, path), want, *rewrite)
	}
}

// queries returns every expression, by where it is.
func queries() map[string]string {
	out := map[string]string{}
	for _, r := range Records() {
		out["rule "+r.Name] = r.Expr
	}
	for _, a := range Alerts() {
		out["alert "+a.Name] = a.Expr
	}
	for _, r := range Rows() {
		for _, p := range r.Panels {
			for i, q := range p.Queries {
				out[fmt.Sprintf("panel %s %d", p.Title, i)] = q.Expr
			}
		}
	}
	out["annotation"] = "changes(max(quorate_limits_version)[1m:]) > 0"
	return out
}

// TestQueriesNameMetricsThatExist, with labels that these have.
func TestQueriesNameMetricsThatExist(t *testing.T) {
	labels := map[string]map[string]bool{"up": {}, "process_cpu_seconds_total": {}, "process_resident_memory_bytes": {}}
	for _, f := range All() {
		own := map[string]bool{}
		for _, l := range f.Labels {
			own[l.Name] = true
		}
		labels[f.Name] = own
		if f.Type == "histogram" {
			delete(labels, f.Name)
			labels[f.Name+"_count"], labels[f.Name+"_sum"] = own, own
			labels[f.Name+"_bucket"] = map[string]bool{"le": true}
			for l := range own {
				labels[f.Name+"_bucket"][l] = true
			}
		}
	}
	for _, r := range Records() {
		labels[r.Name] = map[string]bool{"namespace": true, "limit": true, "protocol": true, "result": true}
	}
	metric := regexp.MustCompile(`\b(?:[a-z_]+:)?(?:quorate_|quorate:|process_|up\b)[a-z0-9_:]*(\{[^}]*\})?`)
	matcher := regexp.MustCompile(`([a-z_]+)(?:=~|!=|!~|=)"`)
	used := map[string]bool{}
	for where, expr := range queries() {
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
	for _, r := range Records() {
		if !used[r.Name] {
			t.Logf("%s is for people alone", r.Name)
		}
	}
}

// TestAlertsAreWhole: each says what it means and what to do, at a place that is there.
func TestAlertsAreWhole(t *testing.T) {
	if n := len(Alerts()); n < 20 {
		t.Errorf("%d alerts", n)
	}
	links := regexp.MustCompile(`\]\(([a-z-]+\.md)#([a-z0-9-]+)\)`)
	for _, a := range Alerts() {
		if a.Summary == "" || a.Means == "" || len(a.Do) == 0 || len(a.Shown.Series) == 0 || a.Shown.Quiet == "" || a.Shown.Fires == "" {
			t.Errorf("%s is not whole: %+v", a.Name, a)
		}
		if !strings.Contains(Runbook(), "\n## "+a.Name+"\n") {
			t.Errorf("%s has no runbook", a.Name)
		}
	}
	documents := Runbook()
	for _, f := range All() {
		documents += f.Do + "\n"
	}
	for _, m := range links.FindAllStringSubmatch(documents, -1) {
		text, err := os.ReadFile(filepath.Join(root, "docs", m[1]))
		if err != nil || !hasHeading(string(text), m[2]) {
			t.Errorf("%s has no heading #%s (%v)", m[1], m[2], err)
		}
	}
}

func hasHeading(text, anchor string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		title := strings.TrimLeft(line, "#")
		if title == line {
			continue
		}
		drop := strings.NewReplacer(",", "", ".", "", "'", "", "`", "", "?", "", " ", "-")
		if strings.ToLower(drop.Replace(strings.TrimSpace(title))) == anchor {
			return true
		}
	}
	return false
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
	for where, expr := range queries() {
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
	for where, expr := range queries() {
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
	for _, r := range Rows() {
		for _, p := range r.Panels {
			all := fmt.Sprint(p.Queries)
			if strings.Contains(all, "quorate_needless_refusals_total") && !strings.Contains(all, "quorate_needless_refusals_at_most_total") {
				t.Errorf("%s: %s", p.Title, all)
			}
		}
	}
}

// TestDashboard: it is JSON, no panel lies on another, and each asks for something.
func TestDashboard(t *testing.T) {
	var d struct {
		Panels []struct {
			ID          int
			Title, Type string
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(DashboardFile()), &d); err != nil {
		t.Fatal(err)
	}
	taken := map[[2]int]string{}
	for i, p := range d.Panels {
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
