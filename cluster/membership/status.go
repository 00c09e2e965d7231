package membership

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
)

// Replicas returns the desired number of replicas of each range.
func (s *Service) Replicas() int {
	if t := s.View().Table; t.Seeded() {
		return t.Replicas()
	}
	return s.cfg.Replicas
}

// Tolerates returns how many more nodes, whichever they are, may be lost before some group
// lacks a majority of voters that answer. For groups that this node leads it uses the actual voters,
// for others the desired ones, which may not be in place yet.
func (s *Service) Tolerates() int {
	v := s.View()
	least := len(v.IDs)
	count := func(g uint32, wanted []quota.NodeID) {
		voters := wanted
		if here := s.node.Host().Group(g); here != nil && s.LeaderOf(g) == s.cfg.Self {
			voters = nil
			for _, m := range here.Members() {
				if m.Voter {
					voters = append(voters, m.ID)
				}
			}
		}
		answer := 0
		for _, id := range voters {
			if s.answers(id) {
				answer++
			}
		}
		least = min(least, max(0, answer-(len(voters)/2+1)))
	}
	count(raftgroup.MetaGroup, v.Meta.Voters)
	for r := range v.Ranges {
		count(raftgroup.OfRange(quota.RangeID(r)), v.Ranges[r].Voters)
	}
	return least
}

// answers reports whether a node is this one or connected.
func (s *Service) answers(id quota.NodeID) bool { return id == s.cfg.Self || s.node.Up(id) }

// LeaderStatus asks the leader of the meta group for the status that only it has; nil if it does not
// answer.
func (s *Service) LeaderStatus(ctx context.Context) *quoratev1.GetStatusResponse {
	res, err := s.changeOnce(ctx, &caller{}, &quoratev1.GetStatusRequest{})
	if err != nil {
		return nil
	}
	out, _ := res.(*quoratev1.GetStatusResponse)
	return out
}

// leaderStatus returns the status that only the leader of the meta group has: how long nodes
// have been silent, and the steps of ranges that differ from their placement.
func (s *Service) leaderStatus(context.Context, *caller, *quoratev1.GetStatusRequest) (*quoratev1.GetStatusResponse, error) {
	t := s.node.Table()
	out := &quoratev1.GetStatusResponse{MembersRevision: t.Revision()}
	for id, d := range s.node.Silences() {
		out.Nodes = append(out.Nodes, &quoratev1.NodeStatus{Id: string(id), Silent: durationpb.New(d)})
	}
	want := t.Ranges(s.cfg.Ranges)
	for _, p := range s.toPlan(t) {
		if p.Group != raftgroup.MetaGroup {
			want[raftgroup.RangeOf(p.Group)] = DecodePlacement(p)
		}
	}
	for r := range quota.RangeID(s.cfg.Ranges) {
		if step := s.rebalancer.pendingStep(t, raftgroup.OfRange(r), want[r]); step != "" {
			out.Ranges = append(out.Ranges, &quoratev1.RangeStatus{Id: uint32(r), Step: step})
		}
	}
	return out, nil
}

// toPlan returns the placements that the rebalancer has yet to store: it plans a moment after a change.
func (s *Service) toPlan(t *Table) []*raftlogv1.StoredPlacement {
	if !t.Seeded() || s.rebalancer.planned.Load() == t.Revision() {
		return nil
	}
	list, err := s.plan(t, t.Nodes())
	if err != nil {
		return nil // the rebalancer logs the error
	}
	return list
}
