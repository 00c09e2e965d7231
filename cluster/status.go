package cluster

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Status returns the cluster as this node sees it.
func (n *Node) Status() *quoratev1.GetStatusResponse {
	ranges, meta := n.routes.snapshot()
	out := &quoratev1.GetStatusResponse{
		Cluster: n.cfg.Cluster, Node: string(n.cfg.Self), MetaLeader: string(meta),
		LimitsVersion: n.meta.current().Version, Version: n.cfg.Version,
		Sync: durationpb.New(n.sync()), Lease: durationpb.New(n.lease()),
	}
	leads := map[quota.NodeID]int32{}
	missing := 0
	for r, rt := range ranges {
		leads[rt.leader]++
		if rt.leader == "" {
			missing++
		}
		replicas := make([]string, 0, len(n.plan[r]))
		for _, id := range n.plan[r] {
			replicas = append(replicas, string(id))
		}
		out.Ranges = append(out.Ranges, &quoratev1.RangeStatus{
			Id: uint32(r), Leader: string(rt.leader), Term: uint64(rt.term), Replicas: replicas,
		})
	}
	up := n.routes.upNodes()
	for _, id := range slices.Sorted(maps.Keys(n.cfg.Nodes)) {
		out.Nodes = append(out.Nodes, &quoratev1.NodeStatus{
			Id: string(id), PeerAddress: n.cfg.Nodes[id], Leads: leads[id], RoundTrip: durationpb.New(n.routes.trip(id)),
			Connected: id == n.cfg.Self || slices.Contains(up, id),
		})
	}
	out.Reason = notReady(missing, len(ranges), meta)
	if out.Reason == "" && !n.routes.hasMeta(out.LimitsVersion) {
		out.Reason = "the limits of the meta group have not arrived yet"
	}
	out.Ready = out.Reason == ""
	return out
}

func notReady(missing, total int, meta quota.NodeID) string {
	switch {
	case missing > 0:
		return fmt.Sprintf("%d of %d ranges have no leader", missing, total)
	case meta == "":
		return "the meta group has no leader"
	}
	return ""
}
