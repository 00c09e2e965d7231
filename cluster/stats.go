package cluster

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/cluster/raftgroup/sharedlog"
)

// stats are the node's own metrics. None has a label per range or key.
type stats struct {
	unsent, refusedReports, leaderChanges prometheus.Counter
	appends                               prometheus.Histogram
}

func (s *stats) init(n *Node, reg prometheus.Registerer) {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	s.unsent = counter("quorate_messages_unsent_total", "Reports and grants that could not be queued to a peer; they are sent again.")
	s.refusedReports = counter("quorate_reports_refused_total", "Reports of an old term, incarnation or sequence number.")
	s.leaderChanges = counter("quorate_leader_changes_total", "Leaders of ranges that this node learned of, after the first of each.")
	s.appends = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "quorate_log_append_seconds", Help: "Duration of appends to the logs of this node's replicas, with the sync of the file.",
		Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5},
	})
	reg.MustRegister(s.appends)
	total := func(name, help string, f func(sharedlog.Stats) uint64) {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(f(n.host.LogStats())) }))
	}
	total("quorate_log_commits_total", "Transactions of the file that holds the logs of all replicas; each syncs the file twice.", func(s sharedlog.Stats) uint64 { return s.Commits })
	total("quorate_log_appended_bytes_total", "Bytes of the entries appended to the logs.", func(s sharedlog.Stats) uint64 { return s.Bytes })
	gauge := func(name, help string, f func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	yes := func(is bool) float64 {
		if is {
			return 1
		}
		return 0
	}
	gauge("quorate_ready", "1 if this node decides: it has the limits (and the first ones, if it sets them), has seen a leader of every range since it started or has waited 10 s for them, and is not stopping. As /readyz.", func() float64 {
		return yes(n.Status().Ready)
	})
	gauge("quorate_cluster_ready", "1 if this node is ready and has seen a leader of every range and of the meta group within 3 s. As /readyz/cluster.", func() float64 {
		st := n.Status()
		return yes(st.Ready && st.Leaderless == "")
	})
	gauge("quorate_ranges_without_leader", "Ranges that have no leader, as this node sees it.", func() float64 {
		ranges, _ := n.routes.snapshot()
		missing := 0
		for _, r := range ranges {
			if r.leader == "" {
				missing++
			}
		}
		return float64(missing)
	})
	gauge("quorate_node_losses_tolerated", "Number of further nodes, any of them, that can fail before a range or the meta group loses its majority of voters, as this node sees it; it knows the voters of the groups that it leads.", func() float64 {
		return float64(n.members.Tolerates())
	})
	gauge("quorate_replicas", "Number of nodes that should hold each range, from the settings.", func() float64 { return float64(n.members.Replicas()) })
	gauge("quorate_faults", "Current faults of this node, such as a full or slow disk, or a wrong clock; quorate cluster status lists them.", func() float64 { return float64(len(n.faults())) })
	gauge("quorate_clock_offset_seconds", "Offset of this node's wall clock from those of most nodes, if above half a second; the node uses their time.", func() float64 {
		return -n.clock.Correction().Seconds()
	})
	gauge("quorate_disk_free_bytes", "Free bytes on the file system of the data directory; 0 on platforms that do not report it.", func() float64 {
		return float64(n.load.read().GetDiskFreeBytes())
	})
	gauge("quorate_peer_round_trip_seconds", "Longest smoothed round trip to a connected peer.", func() float64 { return n.routes.maxRTT().Seconds() })
	gauge("quorate_voters_missing", "Voters of all ranges that this node is not connected to.", func() float64 {
		missing, v := 0, n.members.View()
		up := n.routes.upNodes()
		for r := range v.Ranges {
			for _, id := range v.Ranges[r].Voters {
				if id != n.cfg.Self && !slices.Contains(up, id) {
					missing++
				}
			}
		}
		return float64(missing)
	})
	gauge("quorate_peers_connected", "Peers with live connections.", func() float64 { return float64(len(n.routes.upNodes())) })
}
