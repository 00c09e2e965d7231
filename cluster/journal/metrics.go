package journal

import "github.com/prometheus/client_golang/prometheus"

// Register registers the metrics of a journal; j is nil if it could not be opened.
func Register(j *Journal, reg prometheus.Registerer) {
	stats := func() Stats {
		if j == nil {
			return Stats{Full: true}
		}
		return j.Stats()
	}
	gauge := func(name, help string, f func(s *Stats) int) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			st := stats()
			return float64(f(&st))
		}))
	}
	gauge("quorate_journal_slots", "Slots for durable keys in this node's journal.", func(s *Stats) int { return s.Slots })
	gauge("quorate_journal_slots_used", "Slots of the journal in use.", func(s *Stats) int { return s.Used })
	gauge("quorate_journal_slots_limit", "Bound on the slots of the journal.", func(*Stats) int { return MaxSlots })
	gauge("quorate_journal_pending", "Slots with counts of earlier processes that no leader has committed yet.", func(s *Stats) int { return s.Earlier })
	gauge("quorate_journal_incarnations", "Earlier processes of this node with such counts.", func(s *Stats) int { return s.Incarnations })
	gauge("quorate_journal_failing", "1 if the node has no journal, or the disk has no space for it to grow.", func(s *Stats) int {
		if s.Full {
			return 1
		}
		return 0
	})
	counter := func(reason string, f func(s *Stats) int64) {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "quorate_keys_not_journalled_total", ConstLabels: prometheus.Labels{"reason": reason},
			Help: "Durable keys for which the journal had no slot: their last second would be lost with the process.",
		}, func() float64 {
			st := stats()
			return float64(f(&st))
		}))
	}
	counter("too_long", func(s *Stats) int64 { return s.TooLong })
	counter("no_room", func(s *Stats) int64 { return s.NoRoom })
}
