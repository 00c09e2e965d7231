package monitor

import (
	"fmt"
	"strconv"
	"strings"
)

// Document returns docs/metrics.md. help is what a node says of each metric.
func Document(help map[string]string) string {
	var b strings.Builder
	b.WriteString(preface)
	for _, g := range Catalogue() {
		fmt.Fprintf(&b, "\n## %s\n\n", g.Title)
		if g.About != "" {
			b.WriteString(g.About + "\n\n")
		}
		b.WriteString("| Metric | Type, unit | Labels | What it is | What to do about it |\n|---|---|---|---|---|\n")
		for _, f := range g.Families {
			var labels []string
			for _, l := range f.Labels {
				labels = append(labels, "`"+l.Name+"`")
			}
			fmt.Fprintf(&b, "| `%s` | %s, %s | %s | %s | %s |\n", f.Name, f.Type, f.Unit, strings.Join(labels, " "), cell(help[f.Name]), cell(f.Do))
		}
	}
	b.WriteString("\n## How many series\n\n" + bounds)
	b.WriteString("| Metric | At most, at a node | Label | What bounds its values |\n|---|---:|---|---|\n")
	for _, f := range All() {
		for i, l := range f.Labels {
			name, most := "`"+f.Name+"`", strconv.Itoa(f.Most())
			if i > 0 {
				name, most = "", ""
			}
			fmt.Fprintf(&b, "| %s | %s | `%s` | %s |\n", name, most, l.Name, cell(l.Bound))
		}
	}
	return b.String()
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

const preface = `# Metrics

What ` + "`GET /metrics`" + ` of a node shows, in the text format of Prometheus, or as OpenMetrics to whoever asks for it; then the times of calls have
exemplars: the trace of a call whose caller sent a sampled ` + "`traceparent`" + `. Besides these there are ` + "`go_*` and `process_*`" + `, which are
client_golang's. A dashboard, recording rules and alerts are in [deploy](../deploy).

<!-- Written by go test ./cmd/quorate -run TestMetricsDoc -rewrite, of internal/monitor and a node that runs. -->
`

const bounds = `No label has values that callers can make up without end: no key is a label, unless ` + "`metrics.top_keys`" + ` asks for the few busiest. Series per limit
are bounded by ` + "`metrics.limits`" + `: the limits beyond it are counted together as ` + "`@other`, and `quorate_limits_without_series`" + ` says how many they are. What
follows is with the default settings; of a histogram, times its buckets.

`
