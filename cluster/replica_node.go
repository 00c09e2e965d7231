package cluster

import (
	"time"

	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/bound"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

func (n *Node) newReplicas() *replica.Set {
	return replica.New(&replica.Config{
		Self: n.cfg.Self, Ranges: n.cfg.Ranges, Sync: n.cfg.Sync, MaxKeys: n.cfg.MaxKeys, AskWait: n.cfg.AskWait,
		Now: n.clock.Now, Mono: n.clock.Mono, Overrides: n.meta, Log: n.log, Registry: n.cfg.Registry,
		Series: n.cfg.Series, TopKeys: n.cfg.TopKeys, Refused: n.stats.refusedReports,
	}, replicaNode{part{n}})
}

// replicaNode adapts Node to replica.Node.
type replicaNode struct{ part }

// Members implements replica.Node.
func (n replicaNode) Members(before time.Time) (ids []quota.NodeID, joined int) {
	v := n.members.View()
	return v.IDs, v.Table.JoinedBefore(before)
}

func (n replicaNode) Dead() map[quota.NodeID]quota.Incarnation {
	out := map[quota.NodeID]quota.Incarnation{}
	for _, id := range n.routes.inState(transport.Dead) {
		out[id] = n.net.EndedBefore(id)
	}
	return out
}

func (n replicaNode) Suspects() []quota.NodeID { return n.routes.inState(transport.Refused) }

func (n replicaNode) Leads(r quota.RangeID, term quota.Term) {
	n.routes.set(r, n.cfg.Self, term)
	n.UseLeader(n.cfg.Self, map[quota.RangeID]quota.Term{r: term})
	n.announce()
}

func (n replicaNode) LeadsNoMore(r quota.RangeID) {
	n.routes.clear(r, n.cfg.Self)
	n.leadersLost([]quota.RangeID{r})
	n.announce()
}

// election is how long a range has no leader after a crash, as measured in
// docs/ARCHITECTURE.md.
const election = 600 * time.Millisecond

// Bounds returns the current parameters of the documented bound (package bound).
func (n replicaNode) Bounds() bound.Cluster {
	return bound.Cluster{
		Nodes: len(n.members.View().IDs), Delay: n.routes.maxRTT() / 2, Sync: n.sync(), Lease: n.lease(), Election: election, CutOff: time.Minute,
	}
}

func (n *Node) sync() time.Duration  { return leader.Config{Sync: n.cfg.Sync}.WithDefaults().Sync }
func (n *Node) lease() time.Duration { return leader.Config{Sync: n.cfg.Sync}.WithDefaults().Lease }
