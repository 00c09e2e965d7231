package cluster

import (
	"slices"
	"time"

	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/quota"
)

func (n *Node) newClients() *clients.Service {
	return clients.New(clients.Config{
		Cluster: n.cfg.Cluster, Self: n.cfg.Self, Incarnation: n.inc, Dir: n.cfg.Dir, MaxKeys: n.cfg.MaxKeys,
		Aggregator: n.Aggregator(), Log: n.log, Registry: n.cfg.Registry,
	}, clientsNode{part{n}})
}

// Attach starts an attachment of a client process; see attach.Host.
func (n *Node) Attach(h *attach.Hello, out *attach.Outbox) (attach.Session, error) {
	return n.clients.Attach(h, out)
}

// ReleaseClients asks all client processes to attach to other nodes, accepts no more, and waits briefly until they have
// gone. Call it on a node that is about to stop.
func (n *Node) ReleaseClients() { n.clients.Release() }

// clientsNode adapts Node to clients.Node.
type clientsNode struct{ part }

func (n clientsNode) Sync() time.Duration { return n.sync() }

func (n clientsNode) Lease() time.Duration { return n.lease() }

func (n clientsNode) Limits() *quota.Limits { return n.meta.Current() }

func (n clientsNode) Override(k quota.Key) *quota.Override { return n.meta.Override(k) }

func (n clientsNode) Members() (count int, others []string) {
	v := n.members.View()
	for _, id := range v.IDs {
		if m := v.Member(id); m != nil && id != n.cfg.Self && m.GRPC != "" {
			others = append(others, m.GRPC)
		}
	}
	return len(v.IDs), others
}

func (n clientsNode) Up() []quota.NodeID { return n.routes.upNodes() }

func (n clientsNode) Process(id quota.NodeID) clients.Process {
	if !slices.Contains(n.members.View().IDs, id) {
		return clients.NoMember
	}
	process := clients.Away
	n.routes.peer(id, func(p *peer) {
		switch {
		case p.up():
			process = clients.Connected
		case p.state == transport.Dead, p.state == transport.Refused && time.Since(p.since) >= n.lease():
			process = clients.Ended
		}
	})
	return process
}

func (n clientsNode) ReportRefused() { n.stats.refusedReports.Inc() }
