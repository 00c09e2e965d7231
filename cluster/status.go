package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/health"
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
	v := n.members.View()
	out.MembersRevision = v.Table.Revision()
	out.Replicas = uint32(n.members.Replicas())
	out.Tolerates = new(uint32(n.members.Tolerates()))
	leads := map[quota.NodeID]int32{}
	missing := 0
	for r, rt := range ranges {
		leads[rt.leader]++
		if rt.lacksLeader() {
			missing++
		}
		out.Ranges = append(out.Ranges, &quoratev1.RangeStatus{
			Id: uint32(r), Leader: string(rt.leader), Term: uint64(rt.term), Replicas: texts(v.Ranges[r].Voters), Removed: texts(v.Ranges[r].Removed),
		})
	}
	up := n.routes.upNodes()
	for _, id := range v.IDs {
		s := n.nodeStatus(v, id)
		s.Clients = n.clientsOf(id)
		s.Resources, s.Faults = n.loadOf(id)
		s.Leads, s.Connected = leads[id], id == n.cfg.Self || slices.Contains(up, id)
		out.Nodes = append(out.Nodes, s)
	}
	self := slices.Index(v.IDs, n.cfg.Self)
	out.Leaderless = leaderless(missing, len(ranges), &meta)
	out.Reason = n.undecided(out)
	out.Ready = out.Reason == ""
	out.LimitsVersion = n.Limits().Version // not older than those with which it has just become ready
	if self >= 0 {
		out.Nodes[self].Ready, out.Nodes[self].Reason = new(out.Ready), out.Reason
	}
	return out
}

// nodeStatus returns the status of a node from the membership, with its round trip and clock offset.
func (n *Node) nodeStatus(v *membership.View, id quota.NodeID) *quoratev1.NodeStatus {
	s := &quoratev1.NodeStatus{Id: string(id), PeerAddress: v.Nodes[id], RoundTrip: durationpb.New(n.routes.rtt(id)), State: quoratev1.NodeState_NODE_STATE_ACTIVE}
	for r := range v.Ranges {
		if membership.Names(v.Ranges[r], id) {
			s.Replicas++
		}
	}
	if d, ok := n.clock.Offsets()[id]; ok {
		s.ClockOffset = durationpb.New(d)
	}
	m := v.Member(id)
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

// undecided returns why this node is not ready; "" if it is. A node that has once seen the limits and
// all leaders since its start stays ready without leaders and decides by when_cut_off. Before that,
// its limits and levels may be old. Once it has the limits it waits for leaders of all
// ranges, at most ledWait.
func (n *Node) undecided(st *quoratev1.GetStatusResponse) string {
	switch why := n.members.Refused(); {
	case why != "":
		return why
	case n.retired.Load():
		return health.Stopping
	case !n.routes.hasMeta(st.LimitsVersion):
		return cmp.Or(st.Leaderless, "the limits of the meta group have not arrived yet")
	case !n.routes.wasLed():
		return cmp.Or(st.Leaderless, "the leaders of the ranges are not known yet")
	case n.cfg.AwaitLimits && st.LimitsVersion == 0:
		return "the first limits are not active yet"
	}
	return ""
}

// leaderless describes the groups that have no leader; "" if all have one.
func leaderless(missing, total int, meta *route) string {
	switch {
	case missing > 0:
		return fmt.Sprintf("%d of %d ranges have no leader", missing, total)
	case meta.lacksLeader():
		return "the meta group has no leader"
	}
	return ""
}

// clientsOf returns the number of client processes attached to a node; 0 for one not connected.
func (n *Node) clientsOf(id quota.NodeID) (count int32) {
	if id == n.cfg.Self {
		own, _ := n.clients.Count()
		return int32(min(own, clients.Max))
	}
	n.routes.peer(id, func(p *peer) {
		if p.up() {
			count = int32(min(p.beacon.GetClients(), clients.Max))
		}
	})
	return count
}

// loadOf returns the load and the faults of a node, as it said in its last beacon; nothing for a peer
// that is not connected.
func (n *Node) loadOf(id quota.NodeID) (load *quoratev1.NodeResources, faults []string) {
	var m *peerv1.Resources
	if id == n.cfg.Self {
		m, faults = n.load.read(), n.faults()
	} else {
		n.routes.peer(id, func(p *peer) {
			if p.up() {
				m, faults = p.beacon.GetResources(), p.beacon.GetFaults()
			}
		})
	}
	if m != nil {
		load = &quoratev1.NodeResources{
			Uptime: durationpb.New(time.Duration(m.UptimeNanos)), Cpu: m.Cpu, MemoryBytes: m.MemoryBytes, DiskFreeBytes: m.DiskFreeBytes,
		}
	}
	return load, faults
}

// faults lists the faults of this node, such as a full disk or a wrong clock.
func (n *Node) faults() []string {
	return append(raftgroup.FaultTexts(n.host.Health()), n.clock.Faults()...)
}
