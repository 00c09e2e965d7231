package monitor

// Catalogue returns all metrics of a node, except those of the Go runtime and the process
// (go_*, process_*), which are client_golang's.
func Catalogue() []Group {
	return []Group{decisions(), accuracy(), node(), reports(), clients(), accounts(), journal(), protocols(), api()}
}

func decisions() Group {
	return Group{"Decisions", "What callers of this node were told.", []Family{
		rare(perLimit(counter("quorate_decisions_total", "decisions", "The traffic, and the share that is refused. `why` says what decided: `held` is from this node's own share, `estimate` a guess under soft, `not_held` a refusal under hard that a grant would have changed."), result, why)),
		rare(perLimit(counter("quorate_shadow_refusals_total", "decisions", "What enforcing a limit in shadow mode would refuse: look at it before the switch."))),
		rare(perLimit(counter("quorate_near_limit_total", "decisions", "A limit that is often nearly used up will soon refuse: see `quorate plan headroom`."))),
		counter("quorate_no_limit_total", "checks", "Callers name a limit that is not there: a typing error, or a limit that was deleted too early. They are told so in each answer."),
		gauge("quorate_limits_version", "version", "All nodes should show the same within seconds."),
		gauge("quorate_limits_without_series", "limits", "Above 0, the limits that came last are counted together as `@other`. Raise `metrics.limits` if your Prometheus can keep them."),
	}}
}

func accuracy() Group {
	cause := Label{"cause", 2, "estimate, cut_off"}
	return Group{"How near the ideal", "As this node measured as a leader, of the ranges that it led: add nodes up. [accuracy.md](accuracy.md) says what is measured.", []Family{
		perLimit(counter("quorate_attempted_tokens_total", "tokens", "Demand. With admitted tokens it is the share that is refused, over all nodes.")),
		perLimit(counter("quorate_admitted_tokens_total", "tokens", "What passed; of a limit in shadow, what it would have let pass.")),
		perLimit(counter("quorate_over_admitted_tokens_total", "tokens", "Under soft a little is expected. `cut_off` counts what nodes admitted while they heard of no leader: look at the network."), cause),
		perLimit(counter("quorate_needless_refusals_total", "tokens", "Rising: the limit is small for so many nodes, or requests come in clumps. See [accuracy.md](accuracy.md#9-where-it-is-not-perfect).")),
		perLimit(counter("quorate_needless_refusals_at_most_total", "tokens", "The upper end of the same.")),
		perLimit(gauge("quorate_worst_excess_tokens", "tokens", "Must stay below the bound, the next line, while all nodes hear of each other. Above: tell us, with `quorate rates -o json`.")),
		perLimit(gauge("quorate_over_admission_bound_tokens", "tokens", "The bound. It grows with the round trip and the number of nodes.")),
		rare(gauge("quorate_top_key_demand_tokens", "tokens/s", "Only with `metrics.top_keys`. Who asks for most just now.",
			Label{"namespace", 100, "of those keys"}, Label{"limit", 100, "of those keys"}, Label{"key", 100, "the `metrics.top_keys` (0, at most 100) busiest"})).only(100),
	}}
}

func (f Family) only(series int) Family {
	f.Series = series
	return f
}

func node() Group {
	return Group{"The node and its cluster", "", []Family{
		gauge("quorate_build_info", "1", "Which version runs where.", Label{"version", 1, "of this process"}, Label{"revision", 1, "of this process"}, Label{"goversion", 1, "of this process"}),
		gauge("quorate_ready", "0 or 1", "0 is expected while a node starts or stops; for longer, `GET /readyz` says why."),
		gauge("quorate_cluster_ready", "0 or 1", "0: some range or the meta group has no leader, as this node sees it. Decisions go on locally, by `when_cut_off`. `quorate cluster status` says which."),
		gauge("quorate_ranges_without_leader", "ranges", "Above 0 for longer than an election (1 s): `quorate cluster status --ranges`."),
		gauge("quorate_node_losses_tolerated", "nodes", "The least of all nodes is the truth. 0, with `quorate_replicas` above 1: the loss of one more node stops ranges. `quorate cluster status` says whether a node is down or too few have joined."),
		gauge("quorate_replicas", "nodes", "`replicas`: 1, 3 or 5."),
		gauge("quorate_faults", "faults", "A disk that is full, slow or broken, a wrong clock, or a replica out of service: `quorate cluster status` says what."),
		gauge("quorate_clock_offset_seconds", "seconds", "Not 0: set the node's wall clock, and see to NTP. It counts among `quorate_faults` too."),
		gauge("quorate_peers_connected", "nodes", "Fewer than the others: a node is down or the network is cut."),
		gauge("quorate_ranges_led", "ranges", "About the same on all nodes that do not drain."),
		gauge("quorate_keys", "keys", "Near `quorate_keys_limit` the longest idle keys are dropped: raise `max_keys` or shorten `idle`."),
		gauge("quorate_keys_limit", "keys", "`max_keys`."),
		gauge("quorate_ledger_keys", "keys", "Memory of the leaders: about 1 KiB each."),
		gauge("quorate_reservations", "reservations", "At most 1,000,000, of one identity 250,000. Rising without end: callers do not settle."),
		counter("quorate_reservations_expired_total", "reservations", "Callers that reserve and never settle; their tokens were held for the whole time."),
		counter("quorate_history_failures_total", "failures", "The disk did not take a part of the history, which is tried again for an hour. Rising: look at the disk; decisions do not wait for it."),
		counter("quorate_history_forgotten_blocks_total", "blocks", "Ten seconds that no leader took for an hour, one for each range: what was counted in them is lost, and named as missing."),
		gauge("quorate_history_behind_seconds", "seconds", "How old the oldest block is that a range's log does not have: up to 80, as ranges with nothing to write do so once a minute. Rising: a range has no leader, or its disk is slow."),
		gauge("quorate_history_bytes", "bytes", "Files of the history, at most `history.max_mib`."),
		rare(counter("quorate_log_lines_dropped_total", "lines", "Something goes wrong again and again: the lines that were written say what. See [logs.md](logs.md).")),
		counter("quorate_audit_lost_total", "entries", "Must be 0: the audit log cannot be written. Look at the disk."),
		rare(gauge("quorate_certificate_expiry_timestamp_seconds", "unix time", "When the certificate of this node ends. Nodes renew theirs by themselves; one that is old says that it cannot: see [operating.md](operating.md#certificates).")),
	}}
}

func reports() Group {
	return Group{"Reports, grants and checkpoints", "The traffic between members and leaders.", []Family{
		counter("quorate_reports_sent_total", "reports", "The pace of the member loop: ranges in use, ten times a second."),
		counter("quorate_reported_keys_total", "keys", "Keys in use."),
		counter("quorate_grants_sent_total", "grants", "Answers of the leaders here."),
		counter("quorate_messages_unsent_total", "messages", "A peer does not take what is sent: it is slow or cut off. Nothing is lost, but it is less accurate meanwhile."),
		counter("quorate_grants_dropped_total", "grants", "The member loop is behind: the processor is too small, or something holds it up."),
		counter("quorate_reports_dropped_total", "reports", "A leader's processor is too small for what is reported to it, or a range was busy for long: the members report again."),
		counter("quorate_reports_refused_total", "reports", "A few after each election; a steady rate says that two nodes disagree about who leads."),
		counter("quorate_grant_waits_expired_total", "checks", "Checks that waited 20 ms for nothing: leaders are slow to answer."),
		counter("quorate_leader_unasked_total", "checks", "Limits with `decide: leader` whose leader did not answer: they follow `when_cut_off`."),
		counter("quorate_checkpoints_total", "checkpoints", "One a second for each range that is used."),
		counter("quorate_checkpoints_failed_total", "checkpoints", "After an election a few; steadily: the range's log cannot commit. A leader that dies then forgets more than a second."),
	}}
}

func clients() Group {
	return Group{"Attached clients", "Processes that decide in their own memory: [clients.md](clients.md).", []Family{
		gauge("quorate_clients", "processes", "At most 20,000 on a node."),
		gauge("quorate_client_keys", "keys", "Keys that these have open."),
		counter("quorate_client_reports_total", "reports", "Their pace."),
		counter("quorate_client_settlements_total", "reports", "How broken attachments ended. `later` that never ends: a node that clients had is gone and not removed.", Label{"outcome", 4, "own, relayed, inherited, later"}),
	}}
}

func accounts() Group {
	outcome := Label{"outcome", 7, "what became of the call"}
	res := Label{"result", 8, "how the attempt ended"}
	return Group{"Durable quotas", "[durable-quotas.md](durable-quotas.md).", []Family{
		counter("quorate_account_ops_total", "operations", "The traffic. `unavailable`: a range has no leader or its queue is full.", outcome),
		counter("quorate_account_transactions_total", "transactions", "`held` and `aborted` that rise together: many callers want the same accounts.", res),
		counter("quorate_account_overloads_total", "commands", "Too many wait: the disk is too slow for so many commits, or one range has all the traffic."),
		counter("quorate_account_held_waits_total", "waits", "Callers that want the same accounts in transactions."),
		counter("quorate_account_transactions_recovered_total", "transactions", "A coordinator died in the middle; nothing to do."),
		histogram("quorate_account_batch_commands", "commands", "Large batches: commits are the bottleneck, and are shared well."),
		histogram("quorate_account_commit_seconds", "seconds", "The time of a commit on a majority: disk and network."),
		gauge("quorate_accounts", "accounts", "In the replicas here, so that a cluster of three counts each three times."),
		gauge("quorate_account_requests", "request ids", "What is remembered so that no request counts twice; memory."),
		gauge("quorate_account_transactions", "transactions", "Rising without end: some cannot be ended since a range is down."),
		gauge("quorate_account_queue", "commands", "What waits; see overloads."),
	}}
}

func journal() Group {
	return Group{"Journal", "What survives the death of the process: [RFC](rfcs/20261121_durable_counts.md).", []Family{
		gauge("quorate_journal_failing", "0 or 1", "1: counts of durable keys since the last checkpoint would be lost with the process. The disk is full or read-only."),
		gauge("quorate_journal_slots", "slots", "Grows in steps."),
		gauge("quorate_journal_slots_used", "slots", "Durable keys in use."),
		gauge("quorate_journal_slots_limit", "slots", "65,536."),
		gauge("quorate_journal_pending", "slots", "After a restart it falls to 0 within seconds; if not, a range has no leader."),
		gauge("quorate_journal_lives", "processes", "Several: the node crashes again before its counts are saved."),
		counter("quorate_keys_not_journalled_total", "keys", "Durable keys beyond the bounds of the journal.", Label{"reason", 2, "too_long, no_room"}),
	}}
}

func protocols() Group {
	protocol := Label{"protocol", 8, "the protocols that are served"}
	code := Label{"code", 32, "the outcomes of each"}
	return Group{"Protocols of others", "[clients.md](clients.md).", []Family{
		counter("quorate_protocol_requests_total", "requests", "The traffic of each protocol. `invalid` tells of a client that is set up wrongly.", protocol, code),
		counter("quorate_rlqs_requests_total", "requests", "What Envoy did by itself with what it was given.", result),
		gauge("quorate_rlqs_streams", "streams", "Proxies."),
		gauge("quorate_rlqs_buckets", "buckets", "What these have open."),
		counter("quorate_rlqs_unpaid_tokens_total", "tokens", "What proxies admitted beyond all debts: their reports are too rare for the limit."),
		rare(counter("quorate_envoy_rls_hits_total", "hits", "The statistics of envoyproxy/ratelimit, by rule.",
			Label{"domain", 1000, "of files of rules"}, Label{"rule", 100_000, "rules of those files; with their values the first 1000"}, Label{"result", 4, "within, near, over, shadow"}).only(100_000)),
		rare(counter("quorate_envoy_rls_config_loads_total", "loads", "`refused`: the files have a fault, and what was read before stays in force. The log says where.", Label{"result", 2, "ok, refused"})),
	}}
}

func api() Group {
	port := Label{"port", 3, "http, grpc, redis"}
	return Group{"API", "", []Family{
		histogram("quorate_request_duration_seconds", "seconds", "The time within the node. It has exemplars: the trace of a call that was sampled.",
			Label{"protocol", 2, "http, grpc"}, Label{"method", methods, "the calls and routes of the API, or other"}, Label{"code", 20, "codes of gRPC and HTTP"}).only(2000),
		rare(counter("quorate_denied_calls_total", "calls", "A caller without credentials or permission: a token that has expired, or somebody who tries. The audit log says who.",
			Label{"method", methods, "the calls and routes of the API, or other"}, Label{"reason", 2, "UNAUTHENTICATED, PERMISSION_DENIED"})),
		gauge("quorate_connections", "connections", "See `connections.total`.", port),
		counter("quorate_connections_refused_total", "connections", "A bound is reached: raise it, or find the caller that opens so many.", port, Label{"bound", 2, "total, address"}),
	}}
}
