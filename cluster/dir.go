package cluster

import (
	"errors"
	"maps"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/journal"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
)

// starts holds three incarnations: inc of this start, larger than every earlier one; first of the
// first start with this data; and prior of the start before this one, 0 if this is the first.
type starts struct{ inc, first, prior quota.Incarnation }

// openDir creates or opens the data directory, locks it, checks its identity, and
// returns its starts. If an earlier start joined a cluster, openDir sets cfg.Join and cfg.Nodes.
func openDir(cfg *Config) (*datadir.Lock, starts, error) {
	lock, err := datadir.Open(cfg.Dir)
	if err != nil {
		return nil, starts{}, err
	}
	s, err := identify(cfg)
	if err != nil {
		return nil, s, errors.Join(err, lock.Close())
	}
	return lock, s, nil
}

func identify(cfg *Config) (starts, error) {
	id := datadir.Identity{Format: datadir.Format, Cluster: cfg.Cluster, Node: cfg.Self, Ranges: cfg.Ranges}
	have, there, err := datadir.Read(cfg.Dir)
	if err != nil {
		return starts{}, err
	}
	if there {
		if err := have.Check(id, cfg.Dir); err != nil {
			return starts{}, err
		}
		id.Incarnation, id.First, id.Joined = have.Incarnation, have.First, have.Joined
	}
	id.Joined = cfg.joined(id.Joined)
	prior := quota.Incarnation(id.Incarnation)
	id.Incarnation = max(id.Incarnation+1, uint64(time.Now().UnixNano()))
	holds, err := raftgroup.Holds(cfg.Dir, raftgroup.MetaGroup)
	if err != nil {
		return starts{}, err
	}
	if !there || !holds {
		id.First = id.Incarnation // even if only the logs were deleted
	}
	return starts{quota.Incarnation(id.Incarnation), quota.Incarnation(id.First), prior}, id.Write(cfg.Dir)
}

// joined returns the members at the time this node joined, or nil if it never did. If an earlier
// start joined with the members before, joined sets c.Join and c.Nodes accordingly.
func (c *Config) joined(before map[quota.NodeID]string) map[quota.NodeID]string {
	switch {
	case c.Join:
		return c.Nodes
	case len(before) > 0:
		self := c.Nodes[c.Self]
		c.Join, c.Nodes = true, maps.Clone(before)
		c.Nodes[c.Self] = self
	}
	return before
}

// openJournal opens the node's journal for the aggregator, and returns the counts of earlier
// processes. If the journal cannot be opened, the node runs without one and says so
// in its log and metrics.
func (n *Node) openJournal(ac *aggregator.Config) []quota.RecoveredCounts {
	if n.cfg.Dir == "" { // the node is never started
		return nil
	}
	j, err := journal.Open(journal.Config{Dir: n.cfg.Dir, Cluster: n.cfg.Cluster, Node: n.cfg.Self, Incarnation: n.inc, Prior: n.prior, Logger: n.log})
	if j == nil {
		n.log.Error("no journal: durable counts of the last second would be lost with the process", "err", err)
		return nil
	}
	if err != nil {
		n.log.Error("the journal was damaged; its intact slots were used", "err", err)
	}
	n.journal, ac.Journal, ac.Known = j, j, j.Known()
	inherited := j.Inherited()
	if s := j.Stats(); s.Incarnations > 0 {
		n.log.Info("an earlier process had counts that no leader had saved", "keys", s.Earlier, "incarnations", s.Incarnations)
	}
	return inherited
}

func (n *Node) closeJournal() error {
	if n.journal == nil {
		return nil
	}
	return n.journal.Close()
}
