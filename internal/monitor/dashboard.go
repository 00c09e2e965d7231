package monitor

import (
	"bytes"
	"encoding/json"
)

// A Panel is one chart, number or table of the dashboard.
type Panel struct {
	Title, About string
	Kind         string // timeseries, stat or table
	Unit         string // as Grafana calls it
	Wide         int    // of 24 columns
	Queries      []Query
}

// A Query is what a panel asks for; Legend may have {{label}}.
type Query struct{ Expr, Legend string }

// A Row is a heading of the dashboard and what stands below it.
type Row struct {
	Title  string
	Panels []Panel
}

func chart(title, about, unit string, queries ...Query) Panel {
	return Panel{Title: title, About: about, Kind: "timeseries", Unit: unit, Wide: 12, Queries: queries}
}

func number(title, about, unit, expr string) Panel {
	return Panel{Title: title, About: about, Kind: "stat", Unit: unit, Wide: 4, Queries: []Query{{expr, ""}}}
}

// What variables of the dashboard select.
const (
	chosen = `{namespace=~"$namespace",limit=~"$limit"}`
	nodes  = `{instance=~"$instance"}`
)

// Rows returns the dashboard. A part of nothing, and a quantile of no calls, is not a number:
// such queries have no answer then, which a panel shows as no data.
func Rows() []Row {
	return []Row{
		{"Is it well?", []Panel{
			number("Nodes ready", "Nodes that see a leader of every range.", "short", "sum(quorate_cluster_ready)"),
			number("Ranges without leader", "As the node sees it that sees most.", "short", "max(quorate_ranges_without_leader)"),
			number("Faults", "quorate cluster status says what they are.", "short", "sum(quorate_faults)"),
			number("Decisions", "A second, on all nodes.", "reqps", "sum(rate(quorate_decisions_total[$__rate_interval]))"),
			number("Refused", "Of all decisions.", "percentunit", `sum(rate(quorate_decisions_total{result="refused"}[$__rate_interval])) / (sum(rate(quorate_decisions_total[$__rate_interval])) > 0)`),
			number("Slowest hundredth", "Of checks over HTTP and gRPC.", "s", `histogram_quantile(0.99, sum by (le) (rate(quorate_request_duration_seconds_bucket{method=~"POST /v1/allow.*|.*/Allow|.*/AllowBatch"}[$__rate_interval]))) >= 0`),
		}},
		{"Limits", []Panel{
			chart("Asked for", "Tokens, the ten limits with most.", "short", Query{`topk(10, sum by (namespace, limit) (rate(quorate_attempted_tokens_total` + chosen + `[$__rate_interval])))`, "{{namespace}}/{{limit}}"}),
			chart("Admitted", "Tokens, the ten limits with most.", "short", Query{`topk(10, sum by (namespace, limit) (rate(quorate_admitted_tokens_total` + chosen + `[$__rate_interval])))`, "{{namespace}}/{{limit}}"}),
			chart("Part refused", "The ten that refuse most; of limits in shadow, what they would have.", "percentunit", Query{`topk(10, 1 - sum by (namespace, limit) (rate(quorate_admitted_tokens_total` + chosen + `[$__rate_interval])) / (sum by (namespace, limit) (rate(quorate_attempted_tokens_total` + chosen + `[$__rate_interval])) > 0))`, "{{namespace}}/{{limit}}"}),
			chart("Decisions by reason", "What decided: held is a node's own share.", "reqps", Query{`sum by (result, why) (rate(quorate_decisions_total` + chosen + `[$__rate_interval]))`, "{{result}} {{why}}"}),
			chart("Shadow", "What limits in shadow mode would have refused.", "reqps", Query{`sum by (namespace, limit) (rate(quorate_shadow_refusals_total` + chosen + `[$__rate_interval]))`, "{{namespace}}/{{limit}}"}),
			chart("Nearly used up", "Decisions that left their limit nearly used up.", "reqps", Query{`topk(10, sum by (namespace, limit) (rate(quorate_near_limit_total` + chosen + `[$__rate_interval])))`, "{{namespace}}/{{limit}}"}),
		}},
		{"How near the ideal", []Panel{
			chart("Admitted beyond the limit", "Of what was admitted.", "percentunit", Query{`topk(10, sum by (namespace, limit) (rate(quorate_over_admitted_tokens_total` + chosen + `[$__rate_interval])) / (sum by (namespace, limit) (rate(quorate_admitted_tokens_total` + chosen + `[$__rate_interval])) > 0))`, "{{namespace}}/{{limit}}"}),
			chart(
				"Refused without need", "Of what was asked for, between two bounds: leaders do not see every moment.", "percentunit",
				Query{`topk(10, sum by (namespace, limit) (rate(quorate_needless_refusals_total` + chosen + `[$__rate_interval])) / (sum by (namespace, limit) (rate(quorate_attempted_tokens_total` + chosen + `[$__rate_interval])) > 0))`, "{{namespace}}/{{limit}} at least"},
				Query{`topk(10, sum by (namespace, limit) (rate(quorate_needless_refusals_at_most_total` + chosen + `[$__rate_interval])) / (sum by (namespace, limit) (rate(quorate_attempted_tokens_total` + chosen + `[$__rate_interval])) > 0))`, "{{namespace}}/{{limit}} at most"},
			),
			chart(
				"Worst excess and its bound", "Of one key, in tokens. The excess must stay below the bound while nodes hear of each other.", "short",
				Query{`max by (namespace, limit) (quorate_worst_excess_tokens` + chosen + `)`, "{{namespace}}/{{limit}}"}, Query{`max by (namespace, limit) (quorate_over_admission_bound_tokens` + chosen + `)`, "bound of {{namespace}}/{{limit}}"},
			),
			chart("Admitted while cut off", "Tokens beyond the limit, by nodes that heard of no leader.", "short", Query{`sum by (namespace, limit) (rate(quorate_over_admitted_tokens_total{cause="cut_off",namespace=~"$namespace",limit=~"$limit"}[$__rate_interval]))`, "{{namespace}}/{{limit}}"}),
		}},
		{"API", []Panel{
			{
				Title: "How long checks take", About: "Each exemplar is the trace of a call.", Kind: "heatmap", Unit: "s", Wide: 12,
				Queries: []Query{{`sum by (le) (rate(quorate_request_duration_seconds_bucket{instance=~"$instance",method=~"POST /v1/allow.*|.*/Allow|.*/AllowBatch"}[$__rate_interval]))`, "{{le}}"}},
			},
			chart("Calls by code", "", "reqps", Query{`sum by (protocol, code) (rate(quorate_request_duration_seconds_count` + nodes + `[$__rate_interval]))`, "{{protocol}} {{code}}"}),
			chart("Connections", "", "short", Query{`sum by (instance, port) (quorate_connections` + nodes + `)`, "{{instance}} {{port}}"}, Query{`sum by (instance, port) (rate(quorate_connections_refused_total` + nodes + `[$__rate_interval]))`, "{{instance}} {{port}} refused"}),
			chart("Protocols of others", "", "reqps", Query{`sum by (protocol, code) (rate(quorate_protocol_requests_total` + nodes + `[$__rate_interval])) > 0`, "{{protocol}} {{code}}"}),
			chart("Denied", "Calls without credentials or permission.", "reqps", Query{`sum by (reason) (rate(quorate_denied_calls_total` + nodes + `[$__rate_interval]))`, "{{reason}}"}),
			chart("Limits that are not there", "Checks that named one.", "reqps", Query{`sum by (instance) (rate(quorate_no_limit_total` + nodes + `[$__rate_interval]))`, "{{instance}}"}),
		}},
		{"Nodes", []Panel{
			chart("Ranges led", "", "short", Query{`quorate_ranges_led` + nodes, "{{instance}}"}),
			chart("Keys", "Of what a node can count.", "percentunit", Query{`quorate_keys` + nodes + ` / quorate_keys_limit` + nodes, "{{instance}}"}),
			chart("Reports and grants", "", "cps", Query{`rate(quorate_reports_sent_total` + nodes + `[$__rate_interval])`, "{{instance}} reports"}, Query{`rate(quorate_grants_sent_total` + nodes + `[$__rate_interval])`, "{{instance}} grants"}),
			chart(
				"What should be nothing", "", "cps", Query{`rate(quorate_messages_unsent_total` + nodes + `[$__rate_interval])`, "{{instance}} unsent"}, Query{`rate(quorate_grants_dropped_total` + nodes + `[$__rate_interval])`, "{{instance}} grants dropped"},
				Query{`rate(quorate_checkpoints_failed_total` + nodes + `[$__rate_interval])`, "{{instance}} checkpoints failed"}, Query{`rate(quorate_reports_refused_total` + nodes + `[$__rate_interval])`, "{{instance}} reports refused"},
				Query{`rate(quorate_reports_dropped_total` + nodes + `[$__rate_interval])`, "{{instance}} reports dropped"},
			),
			chart("Clients", "Processes that decide in their own memory.", "short", Query{`quorate_clients` + nodes, "{{instance}}"}),
			chart("Processor and memory", "", "short", Query{`rate(process_cpu_seconds_total{job="quorate",instance=~"$instance"}[$__rate_interval])`, "{{instance}} processors"}, Query{`process_resident_memory_bytes{job="quorate",instance=~"$instance"} / 1073741824`, "{{instance}} GiB"}),
		}},
		{"Durable quotas", []Panel{
			chart("Operations", "", "ops", Query{`sum by (outcome) (rate(quorate_account_ops_total` + nodes + `[$__rate_interval]))`, "{{outcome}}"}),
			chart("Time of a commit", "", "s", Query{`histogram_quantile(0.5, sum by (le) (rate(quorate_account_commit_seconds_bucket` + nodes + `[$__rate_interval]))) >= 0`, "half"}, Query{`histogram_quantile(0.99, sum by (le) (rate(quorate_account_commit_seconds_bucket` + nodes + `[$__rate_interval]))) >= 0`, "slowest hundredth"}),
			chart("Transactions", "", "ops", Query{`sum by (result) (rate(quorate_account_transactions_total` + nodes + `[$__rate_interval]))`, "{{result}}"}),
			chart("Waiting", "", "short", Query{`quorate_account_queue` + nodes, "{{instance}}"}),
		}},
	}
}

type object = map[string]any

const panelHeight, numberHeight = 8, 4

// DashboardFile returns deploy/grafana/quorate.json.
func DashboardFile() string {
	var panels []object
	y := 0
	for _, r := range Rows() {
		panels = append(panels, object{"id": len(panels) + 1, "type": "row", "title": r.Title, "collapsed": false, "gridPos": grid(0, y, 24, 1), "panels": []object{}})
		y++
		x, high := 0, 0
		for _, p := range r.Panels {
			if x+p.Wide > 24 {
				x, y = 0, y+high
			}
			if high = panelHeight; p.Kind == "stat" {
				high = numberHeight
			}
			panels = append(panels, panel(len(panels)+1, &p, grid(x, y, p.Wide, high)))
			x += p.Wide
		}
		y += high
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(dashboard(panels)) // of maps and text alone
	return b.String()
}

func grid(x, y, w, h int) object { return object{"x": x, "y": y, "w": w, "h": h} }

var source = object{"type": "prometheus", "uid": "$source"}

func panel(id int, p *Panel, at object) object {
	var targets []object
	for i, q := range p.Queries {
		t := object{"refId": string(rune('A' + i)), "expr": q.Expr, "legendFormat": q.Legend, "datasource": source, "exemplar": p.Kind == "heatmap"}
		if p.Kind == "heatmap" {
			t["format"] = "heatmap"
		}
		targets = append(targets, t)
	}
	return object{
		"id": id, "type": p.Kind, "title": p.Title, "description": p.About, "gridPos": at, "datasource": source, "targets": targets,
		"fieldConfig": object{"defaults": object{"unit": p.Unit, "min": 0}, "overrides": []object{}},
	}
}

func dashboard(panels []object) object {
	variable := func(name, label, query string) object {
		return object{
			"name": name, "label": label, "type": "query", "datasource": source, "query": query, "refresh": 2,
			"includeAll": true, "multi": true, "allValue": ".*", "current": object{"text": "All", "value": "$__all"}, "sort": 1,
		}
	}
	return object{
		"uid": "quorate", "title": "Quorate", "tags": []string{"quorate", "rate-limit"}, "schemaVersion": 39, "version": 1, "editable": true,
		"refresh": "30s", "time": object{"from": "now-1h", "to": "now"}, "timezone": "utc", "graphTooltip": 1, "panels": panels,
		"description": "Written by go test ./internal/monitor -rewrite; change internal/monitor instead.",
		"templating": object{"list": []object{
			{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus", "current": object{}},
			variable("instance", "Node", "label_values(quorate_ready, instance)"),
			variable("namespace", "Namespace", "label_values(quorate_attempted_tokens_total, namespace)"),
			variable("limit", "Limit", `label_values(quorate_attempted_tokens_total{namespace=~"$namespace"}, limit)`),
		}},
		"annotations": object{"list": []object{{
			"name": "Limits changed", "enable": true, "datasource": source, "iconColor": "blue", "expr": "changes(max(quorate_limits_version)[1m:]) > 0", "titleFormat": "limits changed",
		}}},
	}
}
