package cluster

import (
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
