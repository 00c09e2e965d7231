package cluster

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Status returns the cluster as this node sees it.
func (n *Node) Status() *quoratev1.GetStatusResponse {
	ranges, meta := n.routes.snapshot()
	out := &quoratev1.GetStatusResponse{
		Cluster: n.cfg.Cluster, Node: string(n.cfg.Self), MetaLeader: string(meta.leader),
		LimitsVersion: n.Limits().Version, Version: n.cfg.Version,
		Sync: durationpb.New(n.sync()), Lease: durationpb.New(n.lease()),
	}
	v := n.view.Load()
	out.MembersRevision = v.table.Revision()
	leads := map[quota.NodeID]int32{}
	missing := 0
	for r, rt := range ranges {
		leads[rt.leader]++
		if rt.missing() {
			missing++
		}
		out.Ranges = append(out.Ranges, &quoratev1.RangeStatus{
			Id: uint32(r), Leader: string(rt.leader), Term: uint64(rt.term), Replicas: texts(v.ranges[r].Voters), Former: texts(v.ranges[r].Former),
		})
	}
	up := n.routes.upNodes()
	for _, id := range v.ids {
		s := n.nodeStatus(v, id)
		s.Clients = n.clientsOf(id)
		s.Leads, s.Connected = leads[id], id == n.cfg.Self || slices.Contains(up, id)
		out.Nodes = append(out.Nodes, s)
	}
	self := slices.Index(v.ids, n.cfg.Self)
	if self >= 0 {
		out.Nodes[self].Faults = n.faults()
	}
	out.Reason = notReady(missing, len(ranges), &meta)
	if out.Reason == "" && !n.routes.hasMeta(out.LimitsVersion) {
		out.Reason = "the limits of the meta group have not arrived yet"
	}
	if why := n.barred.Load(); why != nil {
		out.Reason = *why
	}
	out.Ready = out.Reason == ""
	if self >= 0 {
		out.Nodes[self].Ready, out.Nodes[self].Reason = new(out.Ready), out.Reason
	}
	return out
}

// nodeStatus is what the membership knows of a node.
func (n *Node) nodeStatus(v *view, id quota.NodeID) *quoratev1.NodeStatus {
	s := &quoratev1.NodeStatus{Id: string(id), PeerAddress: v.nodes[id], RoundTrip: durationpb.New(n.routes.trip(id)), State: quoratev1.NodeState_NODE_STATE_ACTIVE}
	for r := range v.ranges {
		if names(v.ranges[r], id) {
			s.Replicas++
		}
	}
	m := v.member(id)
	if m == nil {
		return s
	}
	s.State = quoratev1.NodeState(m.State)
	s.Zone, s.Version, s.Level, s.GrpcAddress, s.HttpAddress = m.Zone, m.Version, m.Level, m.GRPC, m.HTTP
	if !m.Joined.IsZero() {
		s.JoinedAt = timestamppb.New(m.Joined)
	}
	return s
}

func texts(ids []quota.NodeID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}

func notReady(missing, total int, meta *route) string {
	switch {
	case missing > 0:
		return fmt.Sprintf("%d of %d ranges have no leader", missing, total)
	case meta.missing():
		return "the meta group has no leader"
	}
	return ""
}

// clientsOf is how many client processes are attached to a node.
func (n *Node) clientsOf(id quota.NodeID) (count int32) {
	if id == n.cfg.Self {
		own, _ := n.clients.count()
		return int32(min(own, MaxClients))
	}
	n.routes.peer(id, func(p *peer) {
		if p.up {
			count = int32(min(p.clients, MaxClients))
		}
	})
	return count
}
