package cluster

import (
	"runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/quorate/quorate/cluster/journal"
	"github.com/quorate/quorate/internal/quota"
)

func TestMetrics(t *testing.T) {
	c := newThreeNodes(t, 3)
	c.apply(limit("a", 10, quota.Soft))
	n := c.nodes["n1"]
	for i := range 10 {
		n.Check(key("test", "a", string(rune('a'+i))), 1)
	}
	reg, ok := n.cfg.Registry.(*prometheus.Registry)
	if !ok {
		t.Fatal("no registry")
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v %v", problems, err)
	}
	gauges := map[string]float64{}
	present := map[string]bool{}
	reasons := map[string]int{"quorate_keys_not_journalled_total": 2, "quorate_over_admitted_tokens_total": 2, "quorate_account_ops_total": 7, "quorate_account_transactions_total": 8, "quorate_client_final_reports_total": 4} // a series each
	for _, f := range families {
		present[f.GetName()] = len(f.GetMetric()) == max(1, reasons[f.GetName()])
		gauges[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
	}
	want := []string{
		"quorate_reports_sent_total", "quorate_reported_keys_total", "quorate_grants_sent_total", "quorate_messages_unsent_total",
		"quorate_grants_dropped_total", "quorate_reports_dropped_total", "quorate_reports_refused_total", "quorate_checkpoints_total", "quorate_checkpoints_failed_total",
		"quorate_leader_decide_requests_total", "quorate_grant_waits_expired_total", "quorate_keys", "quorate_keys_limit", "quorate_ranges_led", "quorate_ledger_keys",
		"quorate_limits_version", "quorate_peers_connected", "quorate_leader_decide_failures_total", "quorate_reservations_expired_total",
		"quorate_reservations", "quorate_journal_slots", "quorate_journal_slots_used", "quorate_journal_slots_limit",
		"quorate_journal_pending", "quorate_journal_incarnations", "quorate_journal_failing", "quorate_keys_not_journalled_total",
		"quorate_attempted_tokens_total", "quorate_admitted_tokens_total", "quorate_over_admitted_tokens_total",
		"quorate_needless_refusals_total", "quorate_needless_refusals_at_most_total", "quorate_worst_excess_tokens", "quorate_over_admission_bound_tokens",
		"quorate_account_ops_total", "quorate_account_transactions_total", "quorate_account_overloads_total", "quorate_account_held_waits_total",
		"quorate_account_transactions_recovered_total", "quorate_account_batch_commands", "quorate_account_commit_seconds", "quorate_accounts",
		"quorate_account_requests", "quorate_account_transactions", "quorate_account_queue",
		"quorate_node_losses_tolerated", "quorate_replicas",
		"quorate_disk_free_bytes", "quorate_peer_round_trip_seconds", "quorate_voters_missing", "quorate_leader_changes_total",
		"quorate_log_append_seconds", "quorate_log_commits_total", "quorate_log_appended_bytes_total",
		"quorate_ready", "quorate_cluster_ready", "quorate_ranges_without_leader", "quorate_faults", "quorate_clock_offset_seconds", "quorate_limits_without_series",
		"quorate_client_reports_total", "quorate_client_final_reports_total", "quorate_clients", "quorate_client_keys",
		"quorate_history_failures_total", "quorate_history_dropped_slots_total", "quorate_history_behind_seconds", "quorate_history_bytes",
	}
	for _, name := range want {
		if !present[name] {
			t.Errorf("%s: want %d series", name, max(1, reasons[name]))
		}
	}
	if len(present) != len(want) {
		t.Errorf("%d families; want %d: add new ones here", len(present), len(want))
	}
	noJournal := 0.
	if runtime.GOOS == "windows" {
		noJournal = 1
	}
	for name, want := range map[string]float64{
		"quorate_keys": 10, "quorate_keys_limit": 10_000, "quorate_ranges_led": 1, "quorate_limits_version": 1, "quorate_peers_connected": 2, "quorate_voters_missing": 0,
		"quorate_journal_failing": noJournal, "quorate_journal_slots_limit": journal.MaxSlots,
	} {
		if gauges[name] != want {
			t.Errorf("%s is %v, want %v", name, gauges[name], want)
		}
	}
}
