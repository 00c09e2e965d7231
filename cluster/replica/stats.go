package replica

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// stats holds the metrics of the replicas. None has a label per range. Only topMetrics has a label per
// key, for a few keys and only if enabled.
type stats struct {
	grants, droppedReports         prometheus.Counter
	checkpoints, failedCheckpoints prometheus.Counter
}

func (st *stats) init(s *Set) {
	reg := s.cfg.Registry
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	st.grants = counter("quorate_grants_sent_total", "Grants that this node's ledgers sent to other nodes.")
	st.droppedReports = counter("quorate_reports_dropped_total", "Reports of other nodes, or of this one, dropped because too many were queued; they are sent again.")
	st.checkpoints = counter("quorate_checkpoints_total", "Checkpoints of levels written to range logs.")
	st.failedCheckpoints = counter("quorate_checkpoints_failed_total", "Checkpoints that could not be written to a range log.")
	gauge := func(name, help string, f func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	gauge("quorate_ranges_led", "Ranges that this node leads.", func() float64 {
		led, _ := s.sizes()
		return float64(led)
	})
	gauge("quorate_ledger_keys", "Keys in the ledgers of the ranges led here.", func() float64 {
		_, keys := s.sizes()
		return float64(keys)
	})
	reg.MustRegister(newLimitMetrics(s))
	if s.cfg.TopKeys > 0 {
		reg.MustRegister(newTopMetrics(s))
	}
}

func (s *Set) sizes() (led, keys int) {
	s.each(func(l *leader.Ledger, _ quota.Time) {
		led++
		keys += l.Len()
	})
	return led, keys
}
