// Package promclient exports a client's statistics as Prometheus metrics.
//
//	prometheus.MustRegister(promclient.New(c))
//
// It is a separate package so that the client does not depend on Prometheus. Package otelclient
// does the same for OpenTelemetry.
package promclient

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/client"
)

// Source provides the statistics; *client.Client implements it.
type Source interface{ Stats() client.Stats }

// metric is a metric and the function that reads its value.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*client.Stats) float64
}

// Collector is a prometheus.Collector for one client. It is safe for concurrent use.
type Collector struct {
	source    Source
	decisions *prometheus.Desc
	metrics   []metric
}

// New returns a collector of the metrics quorate_client_*.
func New(source Source) *Collector {
	c := &Collector{source: source, decisions: prometheus.NewDesc(
		"quorate_client_decisions_total", "Decided checks, with refusals, by mode: granted, soft, cut_off, remote, fallback.",
		[]string{"mode"}, nil,
	)}
	count := func(name, help string, of func(*client.Stats) uint64) {
		c.add("quorate_client_"+name+"_total", help, prometheus.CounterValue, func(s *client.Stats) float64 { return float64(of(s)) })
	}
	gauge := func(name, help string, of func(*client.Stats) int) {
		c.add("quorate_client_"+name, help, prometheus.GaugeValue, func(s *client.Stats) float64 { return float64(of(s)) })
	}
	count("refused", "Checks that were refused.", func(s *client.Stats) uint64 { return s.Refused })
	count("errors", "Checks that were not decided.", func(s *client.Stats) uint64 { return s.Errors })
	count("fallbacks", "Checks decided by the client's own limits.", func(s *client.Stats) uint64 { return s.Decisions[client.ModeFallback] })
	count("calls", "Calls to nodes.", func(s *client.Stats) uint64 { return s.Calls })
	count("timeouts", "Calls that no node answered in time.", func(s *client.Stats) uint64 { return s.Timeouts })
	count("broken_calls", "Calls that were not made because the circuit was open.", func(s *client.Stats) uint64 { return s.Broken })
	count("circuit_opened", "Times that the circuit has opened.", func(s *client.Stats) uint64 { return s.CircuitOpened })
	gauge("circuit_open", "Whether the circuit is open now.", func(s *client.Stats) int { return bit(s.CircuitOpen) })
	gauge("attached", "Whether there is a stream to a node now.", func(s *client.Stats) int { return bit(s.Attached) })
	count("attempts", "Attempts to attach to a node.", func(s *client.Stats) uint64 { return s.Attempts })
	count("streams_lost", "Streams to nodes that broke.", func(s *client.Stats) uint64 { return s.Lost })
	count("reconnects", "Streams that replaced a broken one.", func(s *client.Stats) uint64 { return s.Reattached })
	count("reports", "Reports of counts.", func(s *client.Stats) uint64 { return s.Reports })
	count("reports_unsent", "Reports without room in the send buffer; they are sent again.", func(s *client.Stats) uint64 { return s.Unsent })
	count("grants", "Grants that nodes sent.", func(s *client.Stats) uint64 { return s.Grants })
	count("bad_messages", "Invalid messages of nodes.", func(s *client.Stats) uint64 { return s.Bad })
	count("grant_waits", "Decisions that waited for a grant.", func(s *client.Stats) uint64 { return s.GrantWaits })
	count("asked", "Decisions left to a node, because local data could not decide.", func(s *client.Stats) uint64 { return s.Asked })
	count("dropped", "Keys or final reports that reached no node; their counts are lost.", func(s *client.Stats) uint64 { return s.Dropped })
	count("waits_refused", "Callers refused because the wait queue was full.", func(s *client.Stats) uint64 { return s.WaitsRefused })
	gauge("waiting", "Callers waiting for tokens now.", func(s *client.Stats) int { return s.Waiting })
	gauge("keys", "Keys in the memory of the process.", func(s *client.Stats) int { return s.Keys })
	gauge("limits_version", "Version of the active limits; 0 before the first.", func(s *client.Stats) int { return int(s.Limits) })
	return c
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (c *Collector) add(name, help string, kind prometheus.ValueType, of func(*client.Stats) float64) {
	c.metrics = append(c.metrics, metric{prometheus.NewDesc(name, help, nil, nil), kind, of})
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	to <- c.decisions
	for _, m := range c.metrics {
		to <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	s := c.source.Stats()
	for mode, n := range s.Decisions {
		to <- prometheus.MustNewConstMetric(c.decisions, prometheus.CounterValue, float64(n), string(mode))
	}
	for _, m := range c.metrics {
		to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.of(&s))
	}
}
