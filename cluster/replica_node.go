package cluster

import (
	"context"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/internal/quota"
)

func (n *Node) newReplicas() *replica.Set {
	return replica.New(&replica.Config{
		Self: n.cfg.Self, Ranges: n.cfg.Ranges, Sync: n.cfg.Sync, MaxKeys: n.cfg.MaxKeys, AskWait: n.cfg.AskWait,
		Now: n.clock.Now, Mono: n.clock.Mono, Overrides: n.meta, Log: n.log, Registry: n.cfg.Registry,
		Series: n.cfg.Series, TopKeys: n.cfg.TopKeys, Refused: n.stats.refusedReports,
	}, replicaNode{n})
}

// replicaNode is the node as its replicas see it.
type replicaNode struct{ *Node }

// Committed implements replica.Node, as do the methods below.
func (n replicaNode) Committed() *quota.Limits { return n.meta.Current() }

func (n replicaNode) Members(before time.Time) (ids []quota.NodeID, joined int) {
	v := n.members.View()
	return v.IDs, v.Table.JoinedBefore(before)
}

func (n replicaNode) Dead() map[quota.NodeID]quota.Incarnation {
	out := map[quota.NodeID]quota.Incarnation{}
	for _, id := range n.routes.deadNodes() {
		out[id] = n.net.EndedBefore(id)
	}
	return out
}

func (n replicaNode) Suspects() []quota.NodeID { return n.routes.refusedNodes() }

func (n replicaNode) Propose(ctx context.Context, r quota.RangeID, entry []byte) error {
	g := n.host.Group(group(r))
	if g == nil { // the node is closing
		return raftgroup.ErrClosed
	}
	_, err := g.Apply(ctx, entry)
	return err
}

func (n replicaNode) Leads(r quota.RangeID, term quota.Term) {
	n.routes.set(r, n.cfg.Self, term)
	n.post(func(quota.Time) { n.agg.SetLeader(r, n.cfg.Self, term) })
	n.announce()
}

func (n replicaNode) LeadsNoMore(r quota.RangeID) {
	n.routes.clear(r, n.cfg.Self)
	n.leadersLost([]quota.RangeID{r})
	n.announce()
}

func (n replicaNode) Send(to quota.NodeID, f *peerv1.Frame) { n.sendFrame(to, f) }

func (n replicaNode) Deliver(g *quota.Grant, wait bool) {
	f := func(now quota.Time) { n.apply(now, g) }
	if wait {
		n.post(f)
		return
	}
	n.toMember(f)
}
