package monitor

// An Alert is one alert, its runbook, and what shows that it works.
type Alert struct {
	Name     string
	Severity string // critical: wake somebody; warning: today; info: for who plans
	Expr     string
	For      string
	Summary  string // may have {{ $labels.x }}
	Means    string
	Do       []string

	Shown Shown
}

// Shown is the alert's test, for promtool: with these series it is quiet first, and fires later.
type Shown struct {
	Series []Series
	Labels map[string]string // of the alert that fires
	Quiet  string            // when it does not
	Fires  string            // when it does
}

// Series is one series of a test, in promtool's notation.
type Series struct{ Name, Values string }

func one(name, values string) []Series { return []Series{{name, values}} }

func of(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

const (
	critical = "critical"
	warning  = "warning"
	info     = "info"
)

// n1 is the labels of a node in tests.
const n1 = `{instance="n1:7411",job="quorate"}`

func onN1(more ...string) map[string]string {
	return of(append([]string{"instance", "n1:7411", "job", "quorate"}, more...)...)
}

// Alerts returns all alerts: first what is broken, then what will be, then what planners want
// to know.
func Alerts() []Alert {
	return append(append(broken(), soon()...), planning()...)
}

func broken() []Alert {
	return []Alert{
		{
			Name: "QuorateNodeDown", Severity: critical, For: "1m", Expr: `up{job="quorate"} == 0`,
			Summary: "{{ $labels.instance }} does not answer",
			Means:   "Prometheus cannot read the metrics of a node. The others go on deciding, and elect new leaders within a second. With three replicas the cluster bears one such node, not two.",
			Do: []string{
				"`quorate cluster status` on another node: is it disconnected there too? If not, only the HTTP port or the network to Prometheus is at fault.",
				"Look at the machine and the log of the process. `kill -9` and a restart lose nothing that is durable.",
				"If it never comes back: `quorate cluster remove NODE` ([operating.md](operating.md#drain-leave-remove)).",
			},
			Shown: Shown{one("up"+n1, "1 1 0 0 0 0"), onN1(), "2m", "4m"},
		},
		{
			Name: "QuorateNotReady", Severity: warning, For: "1m", Expr: "quorate_cluster_ready == 0",
			Summary: "{{ $labels.instance }} sees no leader of some range, or has no limits",
			Means:   "The node decides by itself, by `when_cut_off` of each limit. If it is alone with that, it is cut off; if all say so, a majority of some range is gone.",
			Do:      []string{"`GET /readyz/cluster` of the node says why; `GET /readyz` is 200 as long as it decides.", "`quorate cluster status --ranges` says which range, and who should lead it.", "Is the disk of its voters full or slow? Then their log does not commit."},
			Shown:   Shown{one("quorate_cluster_ready"+n1, "1 1 0 0 0 0"), onN1(), "2m", "4m"},
		},
		{
			Name: "QuorateRangeWithoutLeader", Severity: critical, For: "1m", Expr: "min by (job) (quorate_ranges_without_leader) > 0",
			Summary: "no node sees a leader of {{ $value }} ranges",
			Means:   "Every node says so: the majority of a range's voters is gone. Keys of that range are counted by each node for itself, and durable balances in it cannot be changed.",
			Do:      []string{"Start the nodes that are down: what they know is on their disks.", "`quorate cluster status --ranges` names the voters.", "If their disks are lost for ever, restore from a backup: [operating.md](operating.md#restore)."},
			Shown: Shown{
				[]Series{{"quorate_ranges_without_leader" + n1, "0 2 2 2 2 2"}, {`quorate_ranges_without_leader{instance="n2:7411",job="quorate"}`, "0 0 2 2 2 2"}},
				of("job", "quorate"), "1m", "4m",
			},
		},
		{
			Name: "QuorateNoRedundancy", Severity: warning, For: "5m",
			Expr:    "min by (job) (quorate_node_losses_tolerated) == 0 and on (job) max by (job) (quorate_replicas) > 1",
			Summary: "the loss of one more node would stop ranges",
			Means:   "Everything is served, and some range, or the meta group, has just a majority of its voters: a node is down, or fewer nodes are left than `replicas` asks for.",
			Do: []string{
				"`quorate cluster status`: does a node not answer? Start it, or replace it: [operating.md](operating.md#drain-leave-remove).",
				"Are there fewer nodes than `replicas`? Join others.",
				"Stop, drain and upgrade no node until it is over.",
			},
			Shown: Shown{
				[]Series{{"quorate_node_losses_tolerated" + n1, "1 1 1x20"}, {`quorate_node_losses_tolerated{instance="n2:7411",job="quorate"}`, "1 1 0x20"}, {"quorate_replicas" + n1, "3x22"}},
				of("job", "quorate"), "3m", "9m",
			},
		},
		{
			Name: "QuorateFaults", Severity: warning, For: "2m", Expr: "quorate_faults > 0",
			Summary: "{{ $labels.instance }} says that something is wrong with it",
			Means:   "A disk is full, slow or broken, or a replica is out of service. The node has given what it led to others if it could.",
			Do:      []string{"`quorate cluster status` prints what it is, below the table.", "Free the disk: the node comes back by itself ([operating.md](operating.md#when-a-disk-is-full)). Or drain the node and replace it."},
			Shown:   Shown{one("quorate_faults"+n1, "0 0 1 1 1 1"), onN1(), "3m", "5m"},
		},
		{
			Name: "QuoratePeersMissing", Severity: warning, For: "5m", Expr: "quorate_peers_connected < on (job) group_left () (count by (job) (quorate_ready) - 1)",
			Summary: "{{ $labels.instance }} is not connected with all nodes",
			Means:   "Prometheus reads more nodes than this one talks to. What it counts comes late to the leaders that it does not reach.",
			Do:      []string{"Can the nodes reach each other's peer ports? `quorate cluster status` at both ends.", "With certificates: has one of them ended? The log says which handshake was refused, and why."},
			Shown: Shown{
				[]Series{{"quorate_ready" + n1, "1x10"}, {`quorate_ready{instance="n2:7411",job="quorate"}`, "1x10"}, {"quorate_peers_connected" + n1, "1 1 0x8"}},
				onN1(), "6m", "8m",
			},
		},
		{
			Name: "QuorateLimitsDiffer", Severity: warning, For: "2m", Expr: "max by (job) (quorate_limits_version) != min by (job) (quorate_limits_version)",
			Summary: "nodes have different versions of the limits",
			Means:   "A change has not come to all nodes: some of them are cut off from the meta group.",
			Do:      []string{"`quorate cluster status` at the node whose `quorate_limits_version` is behind.", "Is its disk full? Then its replica of the meta group is out of service."},
			Shown: Shown{
				[]Series{{"quorate_limits_version" + n1, "4 5 5 5 5 5"}, {`quorate_limits_version{instance="n2:7411",job="quorate"}`, "4x5"}},
				of("job", "quorate"), "2m", "4m",
			},
		},
		{
			Name: "QuorateCutOff", Severity: warning, For: "2m", Expr: `sum by (namespace, limit) (increase(quorate_over_admitted_tokens_total{cause="cut_off"}[5m])) > 1`,
			Summary: "{{ $labels.namespace }}/{{ $labels.limit }} was exceeded by nodes that heard of no leader",
			Means:   "Nodes that are cut off admit by `when_cut_off` of the limit, and together that was more than the limit, by more than a token. It is counted, and booked as debt, when they are back: the fault itself may be over.",
			Do:      []string{"What was cut off: QuorateNodeDown, QuorateNotReady or QuoratePeersMissing fires, or did some minutes before; the nodes' logs have it too.", "How much it was: OVER of `quorate history LIMIT`.", "Where it must not happen: `ceiling: hard`, or `when_cut_off: closed`, which admits nothing without a leader ([limits.md](limits.md#what-may-stand-beside-it))."},
			Shown:   Shown{one(`quorate_over_admitted_tokens_total{instance="n1:7411",namespace="web",limit="login",cause="cut_off"}`, "0 0 0 10 20 30 40 50"), of("namespace", "web", "limit", "login"), "2m", "6m"},
		},
		{
			Name: "QuorateErrorBoundBroken", Severity: warning, For: "1m",
			Expr:    "quorate_worst_excess_tokens > 1 + max_over_time(quorate_over_admission_bound_tokens[1h]) and delta(quorate_worst_excess_tokens[15m]) > 0",
			Summary: "{{ $labels.namespace }}/{{ $labels.limit }} was exceeded by more than the stated bound",
			Means:   "A key got more than `burst + rate x time` and the bound on top, by more than the token that the measurement may be off. While a node is cut off that is expected (QuorateCutOff fires); else it is a fault of ours.",
			Do:      []string{"`quorate rates --by over_admitted` names the keys.", "Was a node cut off, or did a clock jump? The logs say so.", "If not, send us the output of `quorate rates -o json` and the limit."},
			Shown: Shown{
				[]Series{{`quorate_worst_excess_tokens{instance="n1:7411",job="quorate",namespace="web",limit="login"}`, "0 0 9 9 9 9 9"}, {`quorate_over_admission_bound_tokens{instance="n1:7411",job="quorate",namespace="web",limit="login"}`, "5x6"}},
				onN1("namespace", "web", "limit", "login"), "2m", "4m",
			},
		},
		{
			Name: "QuorateJournalFailing", Severity: warning, For: "1m", Expr: "quorate_journal_failing == 1",
			Summary: "the journal of {{ $labels.instance }} cannot grow",
			Means:   "Counts of durable keys since the last checkpoint, up to a second, would be lost if the process died now. It decides as before.",
			Do:      []string{"Is the disk full, or read-only?", "`quorate_journal_slots_used` at `quorate_journal_slots_limit`: there are more durable keys than it has room for."},
			Shown:   Shown{one("quorate_journal_failing"+n1, "0 0 1 1 1 1"), onN1(), "2m", "4m"},
		},
		{
			Name: "QuorateAuditLost", Severity: warning, For: "0m", Expr: "increase(quorate_audit_lost_total[15m]) > 0",
			Summary: "{{ $labels.instance }} cannot write its audit log",
			Means:   "Changes were made that are not written down here. Other nodes wrote theirs.",
			Do:      []string{"Is the disk full, or `audit.log` in the data directory not writable?", "The node's log has the error."},
			Shown:   Shown{one("quorate_audit_lost_total"+n1, "0 0 1 1 1 1"), onN1(), "1m", "3m"},
		},
		{
			Name: "QuorateCheckpointsFail", Severity: warning, For: "5m", Expr: "rate(quorate_checkpoints_failed_total[5m]) > 0.1",
			Summary: "{{ $labels.instance }} cannot write levels to the logs of its ranges",
			Means:   "A leader that died now would forget more than the last second of what was counted.",
			Do:      []string{"`quorate cluster status --ranges`: has the range its majority?", "Disks of the voters: `raft.slow_disk` in the log."},
			Shown:   Shown{one("quorate_checkpoints_failed_total"+n1, "0 0 0+30x20"), onN1(), "2m", "14m"},
		},
		{
			Name: "QuorateAccountsUnavailable", Severity: critical, For: "2m", Expr: "quorate:account_ops_unavailable:ratio_rate5m > 0.01",
			Summary: "one of a hundred operations on accounts or more cannot be done",
			Means:   "Callers get UNAVAILABLE: a range has no majority, or its queue is full.",
			Do:      []string{"QuorateRangeWithoutLeader? Begin there.", "`quorate_account_queue` and `quorate_account_commit_seconds`: the disk is too slow for so many commits."},
			Shown: Shown{
				[]Series{{`quorate_account_ops_total{instance="n1:7411",outcome="done"}`, "0+600x20"}, {`quorate_account_ops_total{instance="n1:7411",outcome="unavailable"}`, "0 0 0 0 0+60x20"}},
				nil, "3m", "12m",
			},
		},
	}
}

func soon() []Alert {
	return []Alert{
		{
			Name: "QuorateCertificateEnds", Severity: warning, For: "5m", Expr: "quorate_certificate_expiry_timestamp_seconds - time() < 86400",
			Summary: "the certificate of {{ $labels.instance }} ends within a day",
			Means:   "Nodes renew their certificates long before. This one could not, and will be refused by the others.",
			Do:      []string{"The node's log says why it cannot: no member with the key of the CA answers, or the certificate is your own.", "[operating.md](operating.md#certificates)."},
			Shown:   Shown{one("quorate_certificate_expiry_timestamp_seconds"+n1, "90000x80"), onN1(), "10m", "70m"},
		},
		{
			Name: "QuorateKeysNearBound", Severity: warning, For: "15m", Expr: "quorate_keys / quorate_keys_limit > 0.9",
			Summary: "{{ $labels.instance }} has nine tenths of the keys that it can count",
			Means:   "At the bound the longest idle keys are dropped; if none is idle, new ones of a limit share one bucket, `@overflow`.",
			Do:      []string{"Raise `max_keys` (about 900 bytes each), or shorten `idle`.", "Who makes so many keys? `quorate rates` by limit. A key per request is a mistake."},
			Shown:   Shown{[]Series{{"quorate_keys" + n1, "10 95x30"}, {"quorate_keys_limit" + n1, "100x31"}}, onN1(), "10m", "18m"},
		},
		{
			Name: "QuorateGrantsDropped", Severity: warning, For: "5m", Expr: "rate(quorate_grants_dropped_total[5m]) > 0",
			Summary: "{{ $labels.instance }} does not keep up with what leaders send",
			Means:   "The member loop is behind: limits become less accurate.",
			Do:      []string{"Processor: is the node throttled, or does it share its machine?", "`quorate_reported_keys_total`: more keys than one node can report; add nodes."},
			Shown:   Shown{one("quorate_grants_dropped_total"+n1, "0 0 0+5x20"), onN1(), "2m", "14m"},
		},
		{
			Name: "QuorateChecksSlow", Severity: warning, For: "10m", Expr: "protocol:quorate_request_duration_seconds:p99_rate5m > 0.1",
			Summary: "one check of a hundred takes more than 100 ms over {{ $labels.protocol }}",
			Means:   "A check is decided in memory, and waits at most 20 ms for a grant. More than that is a processor or a garbage collector that is too busy, unless callers ask to wait (`max_wait`).",
			Do:      []string{"The exemplars of `quorate_request_duration_seconds` lead to traces of slow calls.", "`quorate_grant_waits_expired_total`: leaders answer late.", "`process_cpu_seconds_total`, `go_gc_duration_seconds`."},
			Shown: Shown{
				[]Series{
					{`quorate_request_duration_seconds_bucket{instance="n1:7411",protocol="http",method="POST /v1/allow",code="200",le="0.001"}`, "0+60x5 300x30"},
					{`quorate_request_duration_seconds_bucket{instance="n1:7411",protocol="http",method="POST /v1/allow",code="200",le="0.5"}`, "0+60x40"},
					{`quorate_request_duration_seconds_bucket{instance="n1:7411",protocol="http",method="POST /v1/allow",code="200",le="+Inf"}`, "0+60x40"},
				}, of("protocol", "http"), "5m", "30m",
			},
		},
		{
			Name: "QuorateConnectionsRefused", Severity: warning, For: "5m", Expr: "rate(quorate_connections_refused_total[5m]) > 0",
			Summary: "{{ $labels.instance }} closes connections to its {{ $labels.port }} port at once",
			Means:   "There are more than `connections.total`, or more of one address than `connections.per_address`.",
			Do:      []string{"Does a caller open a connection for each request? `ss -tn | awk '{print $5}' | sort | uniq -c | sort -n`.", "Behind a proxy all have its address: raise `connections.per_address`."},
			Shown: Shown{
				one(`quorate_connections_refused_total{instance="n1:7411",job="quorate",port="http",bound="address"}`, "0 0 0+5x20"), onN1("port", "http", "bound", "address"), "2m", "14m",
			},
		},
		{
			Name: "QuorateCallsDenied", Severity: warning, For: "10m", Expr: "sum by (instance, reason) (rate(quorate_denied_calls_total[5m])) > 0.1",
			Summary: "{{ $labels.instance }} denies calls: {{ $labels.reason }}",
			Means:   "UNAUTHENTICATED: a token or certificate has ended, or somebody tries. PERMISSION_DENIED: a role is missing.",
			Do:      []string{"`quorate audit --data DIR` at the node: who, from where, and what.", "`quorate roles list IDENTITY`."},
			Shown: Shown{
				one(`quorate_denied_calls_total{instance="n1:7411",method="/quorate.v1.LimitService/ApplyLimits",reason="UNAUTHENTICATED"}`, "0 0 0+30x30"), of("instance", "n1:7411", "reason", "UNAUTHENTICATED"), "5m", "20m",
			},
		},
	}
}

func planning() []Alert {
	return []Alert{
		{
			Name: "QuorateLimitRefusesMuch", Severity: info, For: "30m", Expr: "namespace_limit:quorate_refused:ratio_rate5m > 0.2",
			Summary: "{{ $labels.namespace }}/{{ $labels.limit }} refuses more than a fifth of what is asked for, or would if it were enforced",
			Means:   "Either it does what it is for, or it is too small.",
			Do:      []string{"Is it in shadow (`quorate limits get NAMESPACE/LIMIT`)? Then nobody is refused: it is what enforcing it would refuse.", "`quorate rates --limit NAMESPACE/LIMIT --by refusal_rate`: one key, or all?", "One key: an override, or a word with its owner. All: `quorate plan suggest` says what limit would do."},
			Shown: Shown{
				[]Series{{`quorate_attempted_tokens_total{instance="n1:7411",namespace="web",limit="login"}`, "0+60x60"}, {`quorate_admitted_tokens_total{instance="n1:7411",namespace="web",limit="login"}`, "0+60x5 300+30x60"}},
				of("namespace", "web", "limit", "login"), "20m", "45m",
			},
		},
		{
			Name: "QuorateNeedlessRefusals", Severity: info, For: "30m", Expr: "namespace_limit:quorate_needless_refusals:ratio_rate5m > 0.05",
			Summary: "{{ $labels.namespace }}/{{ $labels.limit }} refuses what it could have covered",
			Means:   "The limit is small for so many nodes, or requests come in clumps: tokens lie where nobody asks for them.",
			Do:      []string{"`ceiling: soft` has no such refusals to speak of; `decide: leader` is exact, for limits that are asked for seldom.", "[accuracy.md](accuracy.md#9-where-it-is-not-perfect)."},
			Shown: Shown{
				[]Series{{`quorate_attempted_tokens_total{instance="n1:7411",namespace="web",limit="login"}`, "0+60x60"}, {`quorate_needless_refusals_total{instance="n1:7411",namespace="web",limit="login"}`, "0x5 0+6x60"}},
				of("namespace", "web", "limit", "login"), "20m", "50m",
			},
		},
		{
			Name: "QuorateLimitMissing", Severity: info, For: "10m", Expr: "rate(quorate_no_limit_total[5m]) > 0.1",
			Summary: "callers of {{ $labels.instance }} name a limit that does not exist",
			Means:   "A typing error, or a limit that was deleted while it was in use.",
			Do:      []string{"The caller is told which name it was.", "`quorate limits history` says whether it was deleted, and `quorate limits rollback` brings it back."},
			Shown:   Shown{one("quorate_no_limit_total"+n1, "0 0 0+30x30"), onN1(), "5m", "20m"},
		},
		{
			Name: "QuorateLimitsWithoutSeries", Severity: info, For: "15m", Expr: "quorate_limits_without_series > 0",
			Summary: "{{ $labels.instance }} counts {{ $value }} limits together",
			Means:   "There are more limits than `metrics.limits`. Dashboards show the others as `@other`.",
			Do:      []string{"Raise `metrics.limits` if your Prometheus can keep about 30 series more for each.", "The history of every limit is in `quorate history`, whatever is set here."},
			Shown:   Shown{one("quorate_limits_without_series"+n1, "0 5x30"), onN1(), "10m", "20m"},
		},
	}
}
