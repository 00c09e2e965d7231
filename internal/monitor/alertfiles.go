package monitor

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const runbooks = "https://github.com/quorate/quorate/blob/main/docs/alerts.md#"

// Anchor is where the alert's runbook is in docs/alerts.md.
func (a *Alert) Anchor() string { return strings.ToLower(a.Name) }

// AlertsFile returns deploy/prometheus/quorate.alerts.yaml.
func AlertsFile() string {
	var b strings.Builder
	b.WriteString(generated + "groups:\n  - name: quorate-alerts\n    rules:\n")
	for _, a := range Alerts() {
		fmt.Fprintf(&b, "      - alert: %s\n        expr: %s\n        for: %s\n        labels: {severity: %s}\n        annotations:\n          summary: %s\n          description: %s\n          runbook_url: %s\n",
			a.Name, strconv.Quote(a.Expr), a.For, a.Severity, strconv.Quote(a.Summary), strconv.Quote(a.Means), runbooks+a.Anchor())
	}
	return b.String()
}

// TestsFile returns deploy/prometheus/quorate.test.yaml, for promtool test rules.
func TestsFile() string {
	var b strings.Builder
	b.WriteString(generated + "rule_files: [quorate.rules.yaml, quorate.alerts.yaml]\nevaluation_interval: 1m\ntests:\n")
	for _, a := range Alerts() {
		fmt.Fprintf(&b, "  - name: %s\n    interval: 1m\n    input_series:\n", a.Name)
		for _, s := range a.Shown.Series {
			fmt.Fprintf(&b, "      - series: %s\n        values: %s\n", strconv.Quote(s.Name), strconv.Quote(s.Values))
		}
		fmt.Fprintf(&b, "    alert_rule_test:\n      - eval_time: %s\n        alertname: %s\n      - eval_time: %s\n        alertname: %s\n        exp_alerts:\n          - exp_labels: {severity: %s", a.Shown.Quiet, a.Name, a.Shown.Fires, a.Name, a.Severity)
		for _, l := range slices.Sorted(maps.Keys(a.Shown.Labels)) {
			fmt.Fprintf(&b, ", %s: %s", l, strconv.Quote(a.Shown.Labels[l]))
		}
		fmt.Fprintf(&b, "}\n            exp_annotations:\n              summary: %s\n              description: %s\n              runbook_url: %s\n",
			strconv.Quote(a.filled()), strconv.Quote(a.Means), runbooks+a.Anchor())
	}
	return b.String()
}

var label = regexp.MustCompile(`\{\{ \$labels\.([a-z]+) \}\}`)

// filled is the summary as it is when the alert of the test fires.
func (a *Alert) filled() string {
	s := label.ReplaceAllStringFunc(a.Summary, func(in string) string { return a.Shown.Labels[label.FindStringSubmatch(in)[1]] })
	return strings.ReplaceAll(s, "{{ $value }}", lastValue(a.Shown.Series))
}

// lastValue is the value that a test's series keep to the end: of 0 5x30 it is 5.
func lastValue(s []Series) string {
	words := strings.Fields(s[len(s)-1].Values)
	v, _, _ := strings.Cut(words[len(words)-1], "x")
	return v
}

// Runbook returns docs/alerts.md.
func Runbook() string {
	var b strings.Builder
	b.WriteString(runbookPreface)
	for _, a := range Alerts() {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", a.Name, a.Anchor(), a.Severity, cell(label.ReplaceAllString(strings.ReplaceAll(a.Summary, "{{ $value }}", "N"), "`$1`")))
	}
	for _, a := range Alerts() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", a.Name, a.Means)
		for i, d := range a.Do {
			fmt.Fprintf(&b, "%d. %s\n", i+1, d)
		}
		fmt.Fprintf(&b, "\n```promql\n%s\n```\n\nfor %s.\n", a.Expr, a.For)
	}
	return b.String()
}

const runbookPreface = `# Alerts

What the alerts of [deploy/prometheus](../deploy/prometheus) mean, and what to do. They expect that nodes are scraped under ` + "`job=\"quorate\"`" + `. critical: wake
somebody; warning: look today; info: for those who plan limits. Metrics are in [metrics.md](metrics.md).

<!-- Written by go test ./internal/monitor -rewrite, of internal/monitor/alerts.go. -->

| Alert | Severity | It says |
|---|---|---|
`
