package front

import "github.com/prometheus/client_golang/prometheus"

// Meter counts the requests of the protocols of others: quorate_protocol_requests_total by protocol
// and code. Methods are safe for concurrent use.
type Meter struct{ requests *prometheus.CounterVec }

// NewMeter returns a meter that is registered with reg. A node has one meter.
func NewMeter(reg prometheus.Registerer) *Meter {
	m := &Meter{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quorate_protocol_requests_total",
		Help: "Requests over other systems' protocols, by protocol and by that protocol's code.",
	}, []string{"protocol", "code"})}
	reg.MustRegister(m.requests)
	return m
}

// Of returns the counter of a protocol's code. A protocol must have few codes. Performance-critical
// code looks up its counters once.
func (m *Meter) Of(protocol, code string) prometheus.Counter {
	return m.requests.WithLabelValues(protocol, code)
}
