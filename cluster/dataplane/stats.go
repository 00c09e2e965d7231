package dataplane

import "github.com/prometheus/client_golang/prometheus"

// stats holds the metrics of decisions. None has a label per range or key.
type stats struct {
	reports, reportedKeys, droppedGrants prometheus.Counter
	waitTimeouts, asked, unasked         prometheus.Counter
	expired                              prometheus.Counter
}

func (s *stats) init(d *Decider) {
	reg := d.cfg.Registry
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	s.reports = counter("quorate_reports_sent_total", "Reports that this node sent or booked, one for each range and round.")
	s.reportedKeys = counter("quorate_reported_keys_total", "Keys in those reports.")
	s.droppedGrants = counter("quorate_grants_dropped_total", "Grants dropped because the inbox was full; they are requested again.")
	s.waitTimeouts = counter("quorate_grant_waits_expired_total", "Checks that waited for a grant that did not arrive in time.")
	s.asked = counter("quorate_leader_decide_requests_total", "Decide requests that this node made for checks that memory did not settle, including those to its own ranges.")
	s.unasked = counter("quorate_leader_decide_failures_total", "Checks whose leader could not be reached, or did not answer in time; they follow when_cut_off.")
	s.expired = counter("quorate_reservations_expired_total", "Reservations that were not settled in time.")
	gauge := func(name, help string, f func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	gauge("quorate_keys", "Keys in this node's table.", func() float64 { return float64(d.agg.Len()) })
	gauge("quorate_keys_limit", "Bound on keys in this node's table (max_keys).", func() float64 { return float64(d.cfg.Aggregator.MaxKeys) })
	gauge("quorate_reservations", "Reservations open on this node.", func() float64 { return float64(d.reserved.places.Held()) })
	gauge("quorate_limits_version", "Version of the active limits.", func() float64 { return float64(d.Limits().Version) })
}
