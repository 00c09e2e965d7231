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

// starts are incarnations: of this start, larger than every earlier one; of the
// first with these data; and of the one before this, 0 if there was none.
type starts struct{ inc, first, prior quota.Incarnation }

// openDir makes or opens a data directory, locks it, checks whose it is, and
// returns its starts. A node that has joined stays one: cfg says so then.
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
	if !there || !raftgroup.Exists(cfg.Dir, raftgroup.GroupName(raftgroup.MetaGroup)) {
		id.First = id.Incarnation // also when somebody has deleted the logs alone
	}
	return starts{quota.Incarnation(id.Incarnation), quota.Incarnation(id.First), prior}, id.Write(cfg.Dir)
}

// joined makes cfg that of a node that joins, if this is one, and returns who was
// there then.
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

// openJournal gives the aggregator the node's journal, and returns what earlier
// processes had counted. A node that can keep none goes on without: it says so,
// here and in its metrics.
func (n *Node) openJournal(ac *aggregator.Config) []quota.RecoveredCounts {
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
