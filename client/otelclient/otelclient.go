// Package otelclient exports a client's statistics as OpenTelemetry metrics.
//
//	r, err := otelclient.Register(otel.Meter("shop"), c)
//	...
//	defer r.Unregister()
//
// It is a separate package so that the client does not depend on OpenTelemetry. It depends only on
// the metrics API; the program chooses the SDK and the exporter. The metrics are those of
// promclient, in OpenTelemetry's form.
package otelclient

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/quorate/quorate/client"
)

// Source provides the statistics; *client.Client implements it.
type Source interface{ Stats() client.Stats }

// reading is a metric and the function that reads its value.
type reading struct {
	of metric.Int64Observable
	at func(*client.Stats) int64
}

// meters creates instruments until one fails.
type meters struct {
	meter    metric.Meter
	readings []reading
	all      []metric.Observable
	err      error
}

func (m *meters) count(name, unit, what string, at func(*client.Stats) uint64) {
	if m.err != nil {
		return
	}
	c, err := m.meter.Int64ObservableCounter("quorate.client."+name, metric.WithUnit(unit), metric.WithDescription(what))
	m.add(c, err, func(s *client.Stats) int64 { return int64(at(s)) })
}

func (m *meters) gauge(name, unit, what string, at func(*client.Stats) int64) {
	if m.err != nil {
		return
	}
	g, err := m.meter.Int64ObservableGauge("quorate.client."+name, metric.WithUnit(unit), metric.WithDescription(what))
	m.add(g, err, at)
}

func (m *meters) add(o metric.Int64Observable, err error, at func(*client.Stats) int64) {
	if m.err = err; err != nil {
		return
	}
	m.readings = append(m.readings, reading{o, at})
	m.all = append(m.all, o)
}

// modeKey is the attribute of quorate.client.decisions.
const modeKey = "quorate.mode"

// Register registers the metrics quorate.client.*. Each collection makes one call of Stats. It
// returns an error if the meter cannot create an instrument. Unregister the result when the client
// is closed.
func Register(meter metric.Meter, source Source) (metric.Registration, error) {
	m := &meters{meter: meter}
	decisions, err := meter.Int64ObservableCounter("quorate.client.decisions", metric.WithUnit("{decision}"),
		metric.WithDescription("Decided checks, with refusals, by mode: granted, soft, cut_off, remote, fallback."))
	m.err = err
	m.instruments()
	if m.err != nil {
		return nil, m.err
	}
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := source.Stats()
		for mode, n := range s.Decisions {
			o.ObserveInt64(decisions, int64(n), metric.WithAttributes(attribute.String(modeKey, string(mode))))
		}
		for i := range m.readings {
			o.ObserveInt64(m.readings[i].of, m.readings[i].at(&s))
		}
		return nil
	}, append(m.all, decisions)...)
}

func (m *meters) instruments() {
	m.count("refused", "{decision}", "Checks that were refused.", func(s *client.Stats) uint64 { return s.Refused })
	m.count("errors", "{check}", "Checks that were not decided.", func(s *client.Stats) uint64 { return s.Errors })
	m.count("calls", "{call}", "Calls to nodes.", func(s *client.Stats) uint64 { return s.Calls })
	m.count("timeouts", "{call}", "Calls that no node answered in time.", func(s *client.Stats) uint64 { return s.Timeouts })
	m.count("broken_calls", "{call}", "Calls that were not made because the circuit was open.", func(s *client.Stats) uint64 { return s.Broken })
	m.count("circuit_opened", "{time}", "Times that the circuit has opened.", func(s *client.Stats) uint64 { return s.CircuitOpened })
	m.gauge("circuit_open", "1", "Whether the circuit is open now.", func(s *client.Stats) int64 { return bit(s.CircuitOpen) })
	m.gauge("attached", "1", "Whether there is a stream to a node now.", func(s *client.Stats) int64 { return bit(s.Attached) })
	m.count("attempts", "{attempt}", "Attempts to attach to a node.", func(s *client.Stats) uint64 { return s.Attempts })
	m.count("streams_lost", "{stream}", "Streams to nodes that broke.", func(s *client.Stats) uint64 { return s.Lost })
	m.count("reconnects", "{stream}", "Streams that replaced a broken one.", func(s *client.Stats) uint64 { return s.Reattached })
	m.count("reports", "{report}", "Reports of counts.", func(s *client.Stats) uint64 { return s.Reports })
	m.count("reports_unsent", "{report}", "Reports without room in the send buffer; they are sent again.", func(s *client.Stats) uint64 { return s.Unsent })
	m.count("grants", "{grant}", "Grants that nodes sent.", func(s *client.Stats) uint64 { return s.Grants })
	m.count("bad_messages", "{message}", "Invalid messages of nodes.", func(s *client.Stats) uint64 { return s.Bad })
	m.count("grant_waits", "{decision}", "Decisions that waited for a grant.", func(s *client.Stats) uint64 { return s.GrantWaits })
	m.count("asked", "{decision}", "Decisions left to a node, because local data could not decide.", func(s *client.Stats) uint64 { return s.Asked })
	m.count("dropped", "{report}", "Keys or final reports that reached no node; their counts are lost.", func(s *client.Stats) uint64 { return s.Dropped })
	m.count("waits_refused", "{call}", "Callers refused because the wait queue was full.", func(s *client.Stats) uint64 { return s.WaitsRefused })
	m.gauge("waiting", "{call}", "Callers waiting for tokens now.", func(s *client.Stats) int64 { return int64(s.Waiting) })
	m.gauge("keys", "{key}", "Keys in the memory of the process.", func(s *client.Stats) int64 { return int64(s.Keys) })
	m.gauge("limits_version", "1", "Version of the active limits; 0 before the first.", func(s *client.Stats) int64 { return int64(s.Limits) })
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
