package cluster

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/cluster/journal"
	"github.com/quorate/quorate/internal/quota"
)

// openJournal gives the aggregator the node's journal, and returns what earlier
// processes had counted. A node that can keep none goes on without: it says so,
// here and in its metrics.
func (n *Node) openJournal(ac *aggregator.Config) []quota.Afterlife {
	if n.cfg.Dir == "" { // a node that is never started
		return nil
	}
	j, err := journal.Open(journal.Config{Dir: n.cfg.Dir, Cluster: n.cfg.Cluster, Node: n.cfg.Self, Life: n.inc, Prior: n.prior, Logger: n.log})
	if j == nil {
		n.log.Error("no journal: durable counts of the last second would be lost with the process", "err", err)
		return nil
	}
	if err != nil {
		n.log.Error("the journal was damaged; what is whole of it was taken over", "err", err)
	}
	n.journal, ac.Journal, ac.Known = j, j, j.Known()
	inherited := j.Inherited()
	if s := j.Stats(); s.Lives > 0 {
		n.log.Info("an earlier process had counts that no leader had saved", "keys", s.Earlier, "incarnations", s.Lives)
	}
	return inherited
}

func (n *Node) closeJournal() error {
	if n.journal == nil {
		return nil
	}
	return n.journal.Close()
}

// journalStats are those of the journal; without one, of one that has no room.
func (n *Node) journalStats() journal.Stats {
	if n.journal == nil {
		return journal.Stats{Full: true}
	}
	return n.journal.Stats()
}

// initJournal makes the metrics of the journal.
func (s *stats) initJournal(n *Node, reg prometheus.Registerer) {
	gauge := func(name, help string, f func(s *journal.Stats) int) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			st := n.journalStats()
			return float64(f(&st))
		}))
	}
	gauge("quorate_journal_slots", "Slots for durable keys in this node's journal.", func(s *journal.Stats) int { return s.Slots })
	gauge("quorate_journal_slots_used", "Slots of the journal in use.", func(s *journal.Stats) int { return s.Used })
	gauge("quorate_journal_slots_limit", "Bound on the slots of the journal.", func(*journal.Stats) int { return journal.MaxSlots })
	gauge("quorate_journal_pending", "Slots with counts of earlier processes that no leader has saved yet.", func(s *journal.Stats) int { return s.Earlier })
	gauge("quorate_journal_incarnations", "Earlier incarnations of the process that such counts are of.", func(s *journal.Stats) int { return s.Lives })
	gauge("quorate_journal_failing", "1 if there is no journal, or the disk has no room for it to grow.", func(s *journal.Stats) int {
		if s.Full {
			return 1
		}
		return 0
	})
	counter := func(reason string, f func(s *journal.Stats) int64) {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "quorate_keys_not_journalled_total", ConstLabels: prometheus.Labels{"reason": reason},
			Help: "Durable keys that the journal had no slot for: their last second would be lost with the process.",
		}, func() float64 {
			st := n.journalStats()
			return float64(f(&st))
		}))
	}
	counter("too_long", func(s *journal.Stats) int64 { return s.TooLong })
	counter("no_room", func(s *journal.Stats) int64 { return s.NoRoom })
}
