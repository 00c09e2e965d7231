package monitor

import (
	"fmt"
	"strconv"
	"strings"
)

// A Record is a recording rule: what a dashboard or an alert would compute again and again.
type Record struct{ Name, Expr, About string }

// Records returns the recording rules. Counters of limits are added up over nodes, since each
// counts what it booked as a leader, and leaders move.
func Records() []Record {
	byLimit := func(metric string) string {
		return "sum by (namespace, limit) (rate(" + metric + "[5m]))"
	}
	return []Record{
		{"namespace_limit:quorate_attempted_tokens:rate5m", byLimit("quorate_attempted_tokens_total"), "tokens a second that were asked for"},
		{"namespace_limit:quorate_admitted_tokens:rate5m", byLimit("quorate_admitted_tokens_total"), "tokens a second that were admitted"},
		{
			"namespace_limit:quorate_refused:ratio_rate5m",
			"1 - namespace_limit:quorate_admitted_tokens:rate5m / (namespace_limit:quorate_attempted_tokens:rate5m > 0)", "the part that was refused; none where nothing was asked for",
		},
		{
			"namespace_limit:quorate_over_admitted:ratio_rate5m",
			byLimit("quorate_over_admitted_tokens_total") + " / (namespace_limit:quorate_admitted_tokens:rate5m > 0)", "the part of what was admitted that the limit would not have covered",
		},
		{
			"namespace_limit:quorate_needless_refusals:ratio_rate5m",
			byLimit("quorate_needless_refusals_total") + " / (namespace_limit:quorate_attempted_tokens:rate5m > 0)", "the part of what was asked for that was refused without need, at least",
		},
		{"instance:quorate_decisions:rate5m", "sum by (instance, result) (rate(quorate_decisions_total[5m]))", "decisions a second of a node, by result"},
		{
			"protocol:quorate_request_duration_seconds:p99_rate5m",
			`histogram_quantile(0.99, sum by (protocol, le) (rate(quorate_request_duration_seconds_bucket{method=~"POST /v1/allow.*|.*/Allow|.*/AllowBatch"}[5m])))`, "the slowest hundredth of checks, in seconds",
		},
		{
			"quorate:account_ops_unavailable:ratio_rate5m",
			`sum(rate(quorate_account_ops_total{outcome="unavailable"}[5m])) / (sum(rate(quorate_account_ops_total[5m])) > 0)`, "the part of the operations on accounts that nobody could do",
		},
	}
}

const generated = "# Written by go test ./internal/monitor -rewrite; change internal/monitor instead.\n"

// RecordsFile returns deploy/prometheus/quorate.rules.yaml.
func RecordsFile() string {
	var b strings.Builder
	b.WriteString(generated + "groups:\n  - name: quorate\n    interval: 30s\n    rules:\n")
	for _, r := range Records() {
		fmt.Fprintf(&b, "      # %s\n      - record: %s\n        expr: %s\n", r.About, r.Name, strconv.Quote(r.Expr))
	}
	return b.String()
}
