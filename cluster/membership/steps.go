package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// advance finds the next step of a group and carries it out.
func (s *Service) advance(ctx context.Context, t *Table, g uint32) (shard.Step, error) {
	is, err := s.actual(ctx, t, g)
	if err != nil {
		return shard.Step{Do: shard.Wait, Why: err.Error()}, err
	}
	want := t.Placement(g)
	step := next(t, g, want, is)
	switch step.Do {
	case shard.Done, shard.Wait:
		return step, nil
	case shard.Forget:
		_, err := s.commitMembers(ctx, t, &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Place{
			Place: &raftlogv1.PutPlacements{Placements: []*raftlogv1.StoredPlacement{EncodePlacement(g, want.Forget(step.Node))}},
		}})
		return step, err
	}
	s.log.Info("moves", "group", raftgroup.GroupName(g), "step", step.Do, "node", step.Node, "why", step.Why)
	ctx, span := s.cfg.Tracer.Start(ctx, "quorate.cluster.move")
	if s.cfg.Tracer != nil {
		span.Text("quorate.group", raftgroup.GroupName(g))
		span.Text("quorate.step", fmt.Sprint(step.Do))
		span.Text("quorate.node", string(step.Node))
		span.Text("quorate.why", step.Why)
	}
	err = s.order(ctx, is.Leader, g, step)
	span.End(err)
	return step, err
}

// next returns the next step of a group. Every member has a replica of the meta group for
// as long as it is a member.
func next(t *Table, g uint32, want shard.Placement, is shard.Actual) shard.Step {
	if g != raftgroup.MetaGroup {
		return shard.Next(want, false, is)
	}
	late := quota.NodeID("")
	for _, id := range t.IDs() {
		in := slices.Contains(is.Voters, id) || slices.Contains(is.Nonvoters, id)
		switch {
		case leaves(t, id):
			if in {
				want.Removed = append(slices.Clip(want.Removed), id) // of a copy
			}
		case !in && is.Alive[id]:
			return shard.Step{Do: shard.AddNonvoter, Node: id, Why: "new member"}
		case !in:
			late = id
		}
	}
	step := shard.Next(want, true, is)
	if step.Do == shard.Done && late != "" { // Done would delay the next check, and without a replica the new member learns nothing
		return shard.Step{Do: shard.Wait, Node: late, Why: "new member, not connected yet"}
	}
	return step
}

// actual returns the present state of a group, as its leader reports it.
func (s *Service) actual(ctx context.Context, t *Table, g uint32) (shard.Actual, error) {
	is := shard.Actual{Ready: map[quota.NodeID]bool{}, Alive: map[quota.NodeID]bool{}}
	for _, id := range t.IDs() {
		is.Alive[id] = s.answers(id)
	}
	var res *peerv1.CallGroupResult
	if is.Leader = s.LeaderOf(g); is.Leader == "" {
		return is, errors.New("the group has no leader")
	}
	if is.Leader == s.cfg.Self {
		res = s.groupState(ctx, g)
	} else {
		c, err := s.node.Call(ctx, is.Leader, &peerv1.Call{Body: &peerv1.Call_Group{Group: &peerv1.CallGroup{Group: g}}})
		if err != nil {
			return is, err
		}
		res = c.GetGroupResult()
	}
	if !res.GetLeads() {
		return is, fmt.Errorf("%s no longer leads the group", is.Leader)
	}
	is.Voters, is.Nonvoters = names(res.GetVoters()), names(res.GetNonvoters())
	for _, id := range res.GetReady() {
		is.Ready[quota.NodeID(id)] = true
	}
	return is, nil
}

// LeaderOf returns the last known leader of a group; "" if unknown.
func (s *Service) LeaderOf(g uint32) quota.NodeID {
	if g == raftgroup.MetaGroup {
		return s.node.MetaLeader()
	}
	return s.node.Leader(raftgroup.RangeOf(g))
}

// replica returns the progress of this node's replica of a group.
func (s *Service) replica(id uint32) *peerv1.CallReplicaResult {
	g := s.node.Host().Group(id)
	if g == nil {
		return &peerv1.CallReplicaResult{LastContactMillis: time.Hour.Milliseconds()}
	}
	index, contact := g.Progress()
	lead, _, _ := g.Leader()
	return &peerv1.CallReplicaResult{LastIndex: index, LastContactMillis: contact.Milliseconds(), Leader: string(lead)}
}

// ReplicaProgress asks a node for the last index of its replica of a group, and how long ago the
// replica heard from the leader.
func (s *Service) ReplicaProgress(ctx context.Context, node quota.NodeID, group uint32) (uint64, time.Duration, error) {
	c, err := s.node.Call(ctx, node, &peerv1.Call{Body: &peerv1.Call_Replica{Replica: &peerv1.CallReplica{Group: group}}})
	if err != nil {
		return 0, 0, err
	}
	r := c.GetReplicaResult()
	return r.GetLastIndex(), time.Duration(r.GetLastContactMillis()) * time.Millisecond, nil
}

// groupState returns the members of a group and which of them are ready, if this node leads the group.
func (s *Service) groupState(ctx context.Context, id uint32) *peerv1.CallGroupResult {
	out := &peerv1.CallGroupResult{}
	g := s.node.Host().Group(id)
	if g == nil {
		return out
	}
	if _, _, out.Leads = g.Leader(); !out.Leads {
		return out
	}
	last, _ := g.Progress()
	for _, m := range g.Members() {
		if m.Voter {
			out.Voters = append(out.Voters, string(m.ID))
		} else {
			out.Nonvoters = append(out.Nonvoters, string(m.ID))
		}
		if m.ID == s.cfg.Self || s.caughtUp(ctx, m.ID, id, last) {
			out.Ready = append(out.Ready, string(m.ID))
		}
	}
	return out
}

// A replica is ready when it lags the leader's log by at most readyEntries, and heard from the leader
// less than readyContact ago.
const (
	readyEntries = 128
	readyContact = 2 * time.Second
)

func (s *Service) caughtUp(ctx context.Context, id quota.NodeID, group uint32, last uint64) bool {
	if !s.node.Up(id) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	index, contact, err := s.ReplicaProgress(ctx, id, group)
	return err == nil && contact < readyContact && index+readyEntries >= last
}

// order makes the leader of a group carry out a step.
func (s *Service) order(ctx context.Context, leader quota.NodeID, g uint32, step shard.Step) error {
	if leader == s.cfg.Self {
		return s.carryOut(ctx, g, step.Do, step.Node)
	}
	f := &peerv1.Call{Body: &peerv1.Call_Step{Step: &peerv1.CallStep{Group: g, Action: uint32(step.Do), Node: string(step.Node)}}}
	_, err := s.node.CallSlow(ctx, leader, f) // the answer waits for a disk
	return err
}

// carryOut carries out a step as the group's leader. It changes nothing if the
// group is in the desired state already.
func (s *Service) carryOut(ctx context.Context, id uint32, do shard.Action, node quota.NodeID) error {
	g := s.node.Host().Group(id)
	if g == nil {
		return raftgroup.ErrNotLeader
	}
	switch do {
	case shard.AddNonvoter:
		return g.AddNonvoter(ctx, node)
	case shard.Promote:
		return g.Promote(ctx, node)
	case shard.Transfer:
		return g.TransferTo(ctx, node)
	case shard.Demote:
		return g.Demote(ctx, node)
	case shard.Remove:
		return g.Remove(ctx, node)
	}
	return fmt.Errorf("this version does not know step %d", do)
}
